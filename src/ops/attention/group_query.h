// What of GroupQueryAttention evaluation and gradient both read.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/table/call.h"

namespace finity {

// Throws Unsupported for forms of the cache that are not modelled.
void refuse_unmodelled_cache(const Call& call);
// Throws Error when an attribute is no number of heads.
std::int64_t head_count(const Call& call, std::string_view name);
// Which scores the fourth result has: 2 before the softmax, 3 after it. Throws Error when none are asked for.
int kept_group_scores(const Call& call);

}  // namespace finity
