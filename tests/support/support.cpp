#include "support/support.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace finity {

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace finity
