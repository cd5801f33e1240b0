// How calls of convolutions and pools are drawn (ops/table/draw_call.h).
#pragma once

#include "ops/table/draw_call.h"

namespace finity {

bool draw_conv(DrawCall& call);
bool draw_conv_transpose(DrawCall& call);
bool draw_qlinear_conv(DrawCall& call);
bool draw_col2im(DrawCall& call);
bool draw_pool(DrawCall& call);
bool draw_unpool(DrawCall& call);

}  // namespace finity
