// What people are told when a command cannot go on.
#pragma once

#include <string>

namespace finity {

// One line about the exception that is being handled; call it in a catch block. An Error speaks for itself, what the
// standard library throws is put into plain words.
std::string failure_text();

}  // namespace finity
