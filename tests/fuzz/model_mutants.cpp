// model_mutants [COUNT] [SEED] [FOLDER...]: mutated models through every command, built
// with ASan and UBSan. The models are the small ones of the official tests, our own
// cases and examples, and those in the folders. Fails on a crash, an assertion, a hang,
// an internal error, and a range that does not hold.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "formats/model_format.h"
#include "formats/text/text.h"
#include "fuzz/mutate_bytes.h"
#include "fuzz/mutate_model.h"
#include "fuzz/pipeline.h"
#include "support/check_case.h"
#include "support/graph_generator.h"
#include "support/paths.h"
#include "support/support.h"

// A size that a mutant asks for must not make the machine swap; it is refused as a smaller machine would.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=512:detect_leaks=0";
}

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kSmall = 64 << 10;

struct Seeds {
  std::vector<std::string> bytes;  // ONNX
  std::vector<std::string> texts;  // the same and others, in the text form
};

void add_text(Seeds& seeds, const finity::Graph& graph) {
  std::string text = finity::print_graph(graph, {.max_elements = 2048});
  if (text.size() > kSmall) text = finity::print_graph(graph);
  if (text.size() <= kSmall) seeds.texts.push_back(std::move(text));
}

void add_folder(Seeds& seeds, const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool model = entry.path().extension() == ".onnx" || entry.path().extension() == ".txt";
    if (entry.is_regular_file() && model && entry.file_size() <= kSmall) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    try {
      std::vector<finity::Note> notes;
      add_text(seeds, finity::read_model(file.string(), notes));
      if (file.extension() == ".onnx") seeds.bytes.push_back(finity::read_text_file(file));
    } catch (const finity::Error&) {
      continue;  // cases, not a model
    }
  }
}

void add_cases(Seeds& seeds) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(finity::testdata_folder() + "/check")) files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    for (const finity::CheckCase& test : finity::read_check_cases(file.string())) add_text(seeds, test.graph);
  }
  for (std::uint64_t seed = 1; seed <= 200; ++seed) seeds.texts.push_back(finity::random_model(seed).text);
}

Seeds all_seeds(int argc, char** argv) {
  Seeds seeds;
  add_folder(seeds, finity::examples_folder());
  add_folder(seeds, finity::testdata_folder() + "/models");
  if (fs::exists(finity::onnx_testdata_folder())) add_folder(seeds, finity::onnx_testdata_folder());
  add_cases(seeds);
  // Folders given by hand are what the run is about: as many of their mutants as of all others.
  Seeds own;
  for (int i = 3; i < argc; ++i) add_folder(own, argv[i]);
  const std::vector<std::string> once = own.texts;
  while (!once.empty() && own.texts.size() < seeds.texts.size()) {
    own.texts.insert(own.texts.end(), once.begin(), once.end());
  }
  seeds.texts.insert(seeds.texts.end(), own.texts.begin(), own.texts.end());
  seeds.bytes.insert(seeds.bytes.end(), own.bytes.begin(), own.bytes.end());
  return seeds;
}

std::string mutant(const Seeds& seeds, finity::Rng& rng) {
  if (seeds.bytes.empty() || rng.below(6) != 0) {
    std::string text = seeds.texts[rng.below(seeds.texts.size())];
    finity::mutate_model(text, rng);
    return text;
  }
  std::string bytes = seeds.bytes[rng.below(seeds.bytes.size())];
  finity::mutate_bytes(bytes, seeds.bytes[rng.below(seeds.bytes.size())], rng);
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const Seeds seeds = all_seeds(argc, argv);
  std::fprintf(stderr, "%zu models as text, %zu as bytes\n", seeds.texts.size(), seeds.bytes.size());
  finity::capture_output();
  std::uint64_t accepted = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    finity::Rng rng(first * 1'000'003 + i);
    if (finity::run_pipeline(mutant(seeds, rng), rng.bits())) ++accepted;
  }
  finity::tell_user(std::to_string(count) + " mutants, " + std::to_string(accepted) + " were checked\n");
  // A run in which no mutant gets past the readers would test nothing.
  return accepted > count / 10 && accepted < count ? 0 : 1;
}
