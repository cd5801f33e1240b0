// Where a worker process is, for the moment when it dies there: the last words on its standard error then name the
// node.
#pragma once

namespace finity {

// A text that stays where it is, until the next call; null: nowhere in particular. Costs a store.
void working_at(const char* place);
const char* place_of_work();
// From now on crashes, the end of the allowed processor time and the word to end are told with the place.
void tell_whereabouts();

}  // namespace finity
