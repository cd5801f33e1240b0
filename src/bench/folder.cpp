#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "bench/recipe.h"
#include "formats/npz/npz.h"
#include "program/data.h"
#include "program/digits.h"
#include "program/read_program.h"
#include "tensor/convert.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

// The file of this name in the folder, packed or not; "" when there is none.
std::string file_named(const fs::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = folder / (name + ending);
    if (fs::is_regular_file(path)) return fs::absolute(path).lexically_normal().string();
  }
  return {};
}

std::string number_text(double x) {
  std::string text = std::to_string(x);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text + "0" : text;
}

// What stands in the description instead of a table of this feed's own.
std::string shared_source(const Feed& feed, const DigitData& digits) {
  if (feed.source == Feed::Source::images) {
    const LegalRange& range = *feed.input.range;
    return "data = \"" + digits.images_source + "\"\nscale = [" + number_text(range.lo) + ", " + number_text(range.hi) +
           "]";
  }
  const std::string classes = feed.one_hot > 0 ? "\none_hot = " + std::to_string(feed.one_hot) : "";
  return "data = \"" + digits.labels_source + "\"" + classes;
}

}  // namespace

DigitData load_digits(const std::string& folder) {
  if (folder.empty()) {
    return {.images = digit_images(),
            .labels = digit_labels(),
            .images_source = "digits.images",
            .labels_source = "digits.labels"};
  }
  for (const std::string set : {"train", "t10k"}) {
    const std::string images = file_named(folder, set + "-images-idx3-ubyte");
    const std::string labels = file_named(folder, set + "-labels-idx1-ubyte");
    if (images.empty() || labels.empty()) continue;
    const Tensor pixels = read_idx(images), classes = read_idx(labels);
    if (pixels.rank() != 3 || pixels.dim(1) != kDigitSize || pixels.dim(2) != kDigitSize) {
      throw Error(images + ": not images of 28 x 28 pixels");
    }
    if (classes.size() != pixels.dim(0)) throw Error(labels + ": not as many labels as there are images");
    return {.images = rescaled(pixels, 0, 255, 0, 1),
            .labels = from_elements<std::int64_t>(DType::int64, classes.dims(), elements<std::int64_t>(classes)),
            .images_source = "idx:" + images,
            .labels_source = "idx:" + labels};
  }
  throw Error(folder + ": neither train- nor t10k-images-idx3-ubyte with their labels-idx1-ubyte (.gz) are there");
}

ProgramFolder folder_of(const Recipe& recipe, const DigitData& digits) {
  const std::string prefix = "npz:" + std::string(kTableFile) + "#";
  PrintedProgram printed = print_program(program_of(recipe, digits, "program"), kModelFile, prefix);
  for (const Feed& feed : recipe.feeds) {
    if (feed.source == Feed::Source::own) continue;
    const std::string line = "data = \"" + prefix + feed.input.name + "\"";
    const std::size_t at = printed.text.find(line + "\n");
    if (at == std::string::npos) throw Error("input '" + feed.input.name + "' is not in the description");
    printed.text.replace(at, line.size(), shared_source(feed, digits));
    printed.data.erase(feed.input.name);
  }
  const NamedTensors tables(printed.data.begin(), printed.data.end());
  return {.description = printed.text, .model = recipe.model, .tables = tables.empty() ? "" : write_npz(tables)};
}

void write_folder(const ProgramFolder& folder, const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) throw Error(path + ": " + failed.message());
  const fs::path where = path;
  write_file_atomically((where / kModelFile).string(), folder.model);
  if (!folder.tables.empty()) write_file_atomically((where / kTableFile).string(), folder.tables);
  write_file_atomically((where / kDescriptionFile).string(), folder.description);
}

}  // namespace finity
