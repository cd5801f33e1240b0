// How calls are drawn of ops that are told a shape or axes (ops/table/draw_call.h).
#pragma once

#include "ops/table/draw_call.h"

namespace finity {

bool draw_reshape(DrawCall& call);
bool draw_expand(DrawCall& call);
bool draw_tile(DrawCall& call);
bool draw_squeeze(DrawCall& call);
bool draw_unsqueeze(DrawCall& call);

}  // namespace finity
