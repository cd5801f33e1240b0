// mutants [COUNT] [SEED]: a bounded run over mutated official test files, built
// with ASan and UBSan. Fails on any crash, on a hang (alarm), and when reading
// allocates more than a small multiple of the file.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "base/rng.h"
#include "formats/npz/npz.h"
#include "formats/onnx/onnx.h"
#include "formats/tensorflow/schema.h"
#include "formats/tensorflow/text_proto.h"
#include "formats/text/text.h"
#include "fuzz/mutate_bytes.h"
#include "fuzz/targets.h"
#include "support/paths.h"
#include "support/support.h"

namespace {

// Live and peak bytes of operator new; the size is kept in front of the block.
std::atomic<std::size_t> live{0};
std::atomic<std::size_t> peak{0};
constexpr std::size_t kHeader = 16;

void* counted(std::size_t size) {
  void* block = std::malloc(size + kHeader);
  if (block == nullptr) throw std::bad_alloc();
  *static_cast<std::size_t*>(block) = size;
  peak = std::max<std::size_t>(peak, live += size);
  return static_cast<char*>(block) + kHeader;
}

void uncounted(void* pointer) {
  if (pointer == nullptr) return;
  void* block = static_cast<char*>(pointer) - kHeader;
  live -= *static_cast<std::size_t*>(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void operator delete(void* pointer) noexcept { uncounted(pointer); }
void operator delete[](void* pointer) noexcept { uncounted(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { uncounted(pointer); }
void operator delete[](void* pointer, std::size_t) noexcept { uncounted(pointer); }
void operator delete(void* pointer, const std::nothrow_t&) noexcept { uncounted(pointer); }
void operator delete[](void* pointer, const std::nothrow_t&) noexcept { uncounted(pointer); }

namespace {

using finity::Rng;

constexpr std::size_t kAllowedPerByte = 300;
constexpr std::size_t kAllowedBase = 4 << 20;
constexpr unsigned kSecondsPerMutant = 20;

using Seeds = std::map<std::string_view, std::vector<std::string>>;

void add_official_tests(Seeds& seeds) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(finity::onnx_testdata_folder())) {
    if (entry.is_regular_file() && fs::file_size(entry.path()) <= 8192) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const std::string bytes = finity::read_text_file(file);
    if (file.extension() == ".onnx") seeds["onnx"].push_back(bytes);
    if (file.extension() == ".pb") seeds["tensor"].push_back(bytes);
  }
}

// The other formats are seeded with what the official files look like in them.
void add_other_formats(Seeds& seeds) {
  for (const std::string& bytes : seeds["onnx"]) {
    std::vector<finity::Note> notes;
    const finity::Graph graph = finity::read_onnx({.bytes = std::as_bytes(std::span(bytes.data(), bytes.size())),
                                                   .owner = nullptr,
                                                   .name = "seed",
                                                   .directory = {}},
                                                  notes);
    seeds["text"].push_back(finity::print_graph(graph));
  }
  for (const auto& entry : std::filesystem::directory_iterator(finity::testdata_folder() + "/ops")) {
    seeds["text"].push_back(finity::read_text_file(entry.path()).substr(0, 4096));
  }
  for (const std::string& bytes : seeds["tensor"]) {
    try {
      seeds["npz"].push_back(
          finity::write_npz({{"x", finity::read_tensor_proto(std::as_bytes(std::span(bytes.data(), bytes.size())))}}));
    } catch (const finity::Error&) {
      continue;  // a sequence
    }
  }
}

// A graph in every form: as text and binary, by itself, with its list of ops, as a saved model, and as TensorFlow.js
// has it.
void add_tensorflow(Seeds& seeds) {
  std::vector<std::string>& forms = seeds["tensorflow"];
  for (const auto& entry : std::filesystem::directory_iterator(finity::testdata_folder() + "/tensorflow/graphs")) {
    const std::string text = finity::read_text_file(entry.path());
    const std::string meta = "meta_info_def { tags: \"serve\" } graph_def { " + text + " }";
    const std::string saved = "saved_model_schema_version: 1 meta_graphs { " + meta + " }";
    forms.push_back(text);
    forms.push_back(finity::tensorflow::binary_from_text(text, finity::tensorflow::kGraphDef));
    forms.push_back(finity::tensorflow::binary_from_text(meta, finity::tensorflow::kMetaGraphDef));
    forms.push_back(finity::tensorflow::binary_from_text(saved, finity::tensorflow::kSavedModel));
  }
  forms.emplace_back(R"({"format": "graph-model", "modelTopology": {"node": [
    {"name": "x", "op": "Placeholder", "attr": {"dtype": {"type": "DT_FLOAT"}, "shape": {"shape": {"dim": [{"size": "-1"}]}}}},
    {"name": "w", "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}, "value": {"tensor": {"dtype": "DT_FLOAT",
      "tensorShape": {"dim": [{"size": "3"}]}, "tensorContent": "AACAPwAAAEAAAEBA"}}}},
    {"name": "y", "op": "Log", "input": ["w"], "attr": {"T": {"type": "DT_FLOAT"}}}],
    "library": {}, "versions": {"producer": 987}}, "weightsManifest": []})");
}

void add_settings(Seeds& seeds) {
  for (const auto& entry : std::filesystem::directory_iterator(finity::testdata_folder() + "/settings")) {
    seeds["settings"].push_back(finity::read_text_file(entry.path()));
  }
  for (const char* text : {"x:[0,1]", "'*':[-inf, 5]", "boxes[2] >= boxes[0]", "end <= start"}) {
    seeds["settings"].emplace_back(text);
  }
}

[[noreturn]] void report(const finity::FuzzTarget& target, const std::string& bytes, const char* what,
                         std::size_t amount) {
  const std::string path = "mutant-" + std::string(target.name) + ".bin";
  if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
  }
  std::printf("%s: %s %zu for a file of %zu bytes, kept as %s\n", std::string(target.name).c_str(), what, amount,
              bytes.size(), path.c_str());
  std::exit(1);
}

// Number of mutants that were still accepted: a run in which none is would test only the first check.
std::size_t run_target(const finity::FuzzTarget& target, const std::vector<std::string>& seeds, std::size_t count,
                       Rng& rng) {
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::string bytes = seeds[rng.below(seeds.size())];
    const std::string& other = seeds[rng.below(seeds.size())];
    finity::mutate_bytes(bytes, other, rng);
    const std::size_t before = live;
    peak = before;
    alarm(kSecondsPerMutant);
    if (target.run(std::as_bytes(std::span(bytes.data(), bytes.size())))) ++accepted;
    alarm(0);
    const std::size_t used = peak - before;
    if (used > kAllowedPerByte * bytes.size() + kAllowedBase) report(target, bytes, "allocated bytes", used);
  }
  return accepted;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 24000;
  Rng rng(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  Seeds seeds;
  add_official_tests(seeds);
  add_other_formats(seeds);
  add_settings(seeds);
  add_tensorflow(seeds);
  for (const finity::FuzzTarget& target : finity::kFuzzTargets) {
    const std::vector<std::string>& own = seeds[target.name];
    // Models are the widest door; the other readers share the rest.
    const std::size_t share = target.name == "onnx" ? count / 2 : count / 8;
    const std::size_t accepted = run_target(target, own, share, rng);
    std::printf("%s: %zu mutants of %zu seeds, %zu accepted\n", std::string(target.name).c_str(), share, own.size(),
                accepted);
    if (accepted == 0 || accepted == share) return 1;
  }
  return 0;
}
