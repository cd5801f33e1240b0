// Writes the models of examples/patterns/. `make_patterns DIR` writes them all,
// `make_patterns --check DIR` says which files differ from what it would write.
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/rng.h"
#include "formats/onnx/onnx.h"
#include "formats/text/text.h"
#include "models.h"
#include "tensor/tensor.h"

namespace finity {
namespace {

// "[16, 64]" right before the place: how many elements the constant has.
std::int64_t elements_before(const std::string& text, std::size_t place) {
  const std::size_t open = text.rfind('[', place);
  const std::size_t close = text.find(']', open);
  Dims dims;
  for (std::size_t at = open + 1; at < close;) {
    std::size_t end = at;
    while (end < close && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end > at) dims.push_back(std::stoll(text.substr(at, end - at)));
    at = end + 1;
  }
  return element_count(dims);
}

// Steps of 1/256 of the width around the centre: the same on every machine.
std::string drawn_weights(std::int64_t count, double centre, double width, Rng& rng) {
  std::string list;
  for (std::int64_t i = 0; i < count; ++i) {
    const double step = static_cast<double>(rng.below(513)) - 256;
    list += (i == 0 ? "" : ", ") + std::to_string(centre + step / 256 * width);
  }
  return list;
}

std::string with_weights(std::string text) {
  Rng rng(28);
  for (std::size_t mark = 0; (mark = text.find('~', mark)) != std::string::npos; ++mark) {
    const std::size_t start = text.rfind('{', mark) + 1;
    const std::size_t end = text.find('}', mark);
    const double centre = start == mark ? 0 : std::stod(text.substr(start, mark - start));
    const double width = std::stod(text.substr(mark + 1, end - mark - 1));
    const std::string weights = drawn_weights(elements_before(text, start), centre, width, rng);
    text.replace(start, end - start, weights);
  }
  return text;
}

std::string onnx_of(const PatternModel& model) {
  const std::string header =
      "model {ir_version = 9, producer_name = \"finity examples\"}\nopset " + std::to_string(model.opset);
  return write_onnx(parse_graph(with_weights(header + std::string(model.text)), model.name));
}

bool differs(const std::string& path, const std::string& content) {
  std::ifstream in(path, std::ios::binary);
  const std::string stored((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in && stored == content) return false;
  std::fprintf(stderr, "%s is not what make_patterns writes\n", path.c_str());
  return true;
}

int run(bool check, const std::string& folder) {
  int different = 0;
  for (const auto& models : {half_precision_models(), domain_models(), gradient_models()}) {
    for (const PatternModel& model : models) {
      const std::string path = folder + "/" + std::string(model.name) + ".onnx";
      const std::string content = onnx_of(model);
      if (check) different += differs(path, content) ? 1 : 0;
      else write_file_atomically(path, content);
    }
  }
  return different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace finity

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string(argv[1]) == "--check";
  if (argc != 2 && !check) {
    std::fprintf(stderr, "usage: make_patterns [--check] DIR\n");
    return 2;
  }
  try {
    return finity::run(check, argv[argc - 1]);
  } catch (const finity::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
