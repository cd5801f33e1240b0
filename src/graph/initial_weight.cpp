#include "graph/initial_weight.h"

#include "base/error.h"

namespace finity {

Tensor InitialWeight::load() const { throw Error(missing()); }

}  // namespace finity
