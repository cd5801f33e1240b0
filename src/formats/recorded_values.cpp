#include "formats/recorded_values.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/npz/npz.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/test_data.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

// input_0, output_12
bool is_test_file(std::string_view stem) {
  for (const std::string_view start : {"input_", "output_"}) {
    if (!stem.starts_with(start) || stem.size() == start.size()) continue;
    return stem.find_first_not_of("0123456789", start.size()) == std::string_view::npos;
  }
  return false;
}

std::vector<fs::path> entries_of(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  if (error) throw Error(folder + ": " + error.message());
  std::ranges::sort(entries);
  return entries;
}

RecordedValues read_arrays(const std::string& path) {
  const auto file = MappedFile::open(path);
  RecordedValues run = {.where = path};
  try {
    if (!looks_like_npz(file->bytes())) throw Error("is neither an .npz file nor a folder");
    for (auto& [name, tensor] : read_npz(file->bytes())) run.values.emplace_back(name, std::move(tensor));
  } catch (Error& error) {
    error.in(path);
    throw;
  }
  return run;
}

void read_tensor(const fs::path& path, RecordedValues& run) {
  try {
    std::string name;
    Tensor tensor = read_tensor_proto(MappedFile::open(path.string())->bytes(), &name);
    run.values.emplace_back(name.empty() ? path.stem().string() : name, std::move(tensor));
  } catch (Error& error) {
    error.in(path.string());
    throw;
  }
}

// input_K.pb and output_K.pb, which may be sequences, and whose names need not be the model's.
void read_test_files(const std::string& folder, const Graph& graph, RecordedValues& run) {
  TestData data = read_test_data(folder, graph);
  for (auto& [name, datum] : data.inputs) run.values.emplace_back(name, std::move(datum));
  for (std::size_t i = 0; i < data.outputs.size(); ++i) {
    if (!data.outputs[i].present()) continue;
    run.values.emplace_back(graph.value(graph.main().outputs[i]).name, std::move(data.outputs[i]));
  }
}

RecordedValues read_folder(const std::string& folder, const std::vector<fs::path>& entries, const Graph& graph) {
  RecordedValues run = {.where = folder};
  read_test_files(folder, graph, run);
  for (const fs::path& entry : entries) {
    if (entry.extension() == ".pb" && !is_test_file(entry.stem().string())) read_tensor(entry, run);
  }
  if (run.values.empty()) throw Error(folder + ": holds no .npz or .pb files");
  return run;
}

}  // namespace

std::vector<RecordedValues> read_recorded(const std::string& path, const Graph& graph) {
  if (!fs::is_directory(path)) return {read_arrays(path)};
  const std::vector<fs::path> entries = entries_of(path);
  std::vector<RecordedValues> runs;
  bool loose = false;
  for (const fs::path& entry : entries) {
    const bool data_set = fs::is_directory(entry) && entry.filename().string().starts_with("test_data_set_");
    if (data_set) runs.push_back(read_folder(entry.string(), entries_of(entry.string()), graph));
    else if (entry.extension() == ".npz") runs.push_back(read_arrays(entry.string()));
    loose |= entry.extension() == ".pb";
  }
  if (runs.empty() || loose) runs.push_back(read_folder(path, entries, graph));
  return runs;
}

}  // namespace finity
