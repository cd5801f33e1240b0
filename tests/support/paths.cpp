#include "support/paths.h"

namespace finity {

const std::string& root_folder() {
  static const std::string folder = FINITY_ROOT;
  return folder;
}

const std::string& testdata_folder() {
  static const std::string folder = root_folder() + "/testdata";
  return folder;
}

const std::string& examples_folder() {
  static const std::string folder = root_folder() + "/examples";
  return folder;
}

const std::string& onnx_testdata_folder() {
  static const std::string folder = "/usr/include/onnx/backend/test/data";
  return folder;
}

}  // namespace finity
