// A program in the language of the library's users that shows a fault, with nothing of finity in it.
#pragma once

#include <string>

#include "fuzz/finding.h"

namespace finity::fuzz {

// JavaScript for onnxruntime-node; runs in the finding's folder.
std::string reproducer(const Finding& finding);

}  // namespace finity::fuzz
