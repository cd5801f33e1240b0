// Where the files of the tests are. Only paths.cpp knows the folders: were they defined for every file, no two
// checkouts could share what a compiler cache holds.
#pragma once

#include <string>

namespace finity {

const std::string& testdata_folder();
const std::string& examples_folder();
const std::string& root_folder();
const std::string& onnx_testdata_folder();  // of Debian's libonnx-testdata; need not be there

}  // namespace finity
