// The engine that the worker program hands to serve().
#pragma once

#include <memory>

#include "exec/serve.h"

namespace finity {

std::unique_ptr<Engine> make_torch_engine();

}  // namespace finity
