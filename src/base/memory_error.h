// Sizes that cannot be had are the model's fault, not ours: they become an Error,
// which gets the name of the node and of the file like any other.
#pragma once

#include <new>
#include <stdexcept>

#include "base/error.h"

namespace finity {

template <class F>
void with_memory_errors(F&& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    throw Error("not enough memory");
  } catch (const std::length_error&) {
    throw Error("not enough memory: a size is too large");
  }
}

}  // namespace finity
