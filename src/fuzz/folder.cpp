#include "fuzz/folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/model_format.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/test_data.h"
#include "formats/text/text.h"
#include "fuzz/backward.h"
#include "fuzz/meaning.h"
#include "fuzz/reproducer.h"

namespace finity::fuzz {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json description(const Finding& finding) {
  const Complaint& c = finding.complaint;
  json versions = json::array();
  for (const auto& [spec, stand] : finding.versions) versions.push_back({spec.text(), strip_text({{spec, stand}})});
  json result = {{"key", finding.key},
                 {"backend", finding.backend.text()},
                 {"library", finding.library},
                 {"symptom", std::string(name(c.symptom))},
                 {"optimised", c.level != Optimisation::none},
                 {"proven", c.proven},
                 {"legal", finding.legal},
                 {"derivative", c.derivative},
                 {"by_distance", c.by_distance},
                 {"law", finding.law},
                 {"op", c.op},
                 {"text", c.text},
                 {"versions", versions},
                 {"known", finding.known},
                 {"opset", finding.sample.opset}};
  if (c.element >= 0) {
    result["tensor"] = c.tensor;
    result["element"] = c.element;
    result["expected"] = {c.expected.lo, c.expected.hi};
    result["observed"] = to_string(point(c.observed));
  }
  return result;
}

std::string page(const Finding& finding) {
  const Complaint& c = finding.complaint;
  std::ostringstream out;
  out << "# " << title(finding) << "\n\n";
  out << "Seen with " << finding.backend.text() << (finding.library.empty() ? "" : " (" + finding.library + ", x86-64)")
      << ": " << c.text << "\n\n";
  if (!c.tensor.empty() && c.element >= 0) {
    out << "| | |\n|---|---|\n| " << (c.derivative ? "derivative of the sum of the first float output by" : "tensor")
        << " | `" << c.tensor << "`, element " << c.element << " in row-major order |\n";
    out << (c.by_distance ? "| within 1e-2 and 1e-3 of the reference is | " : "| every correct result lies in | ")
        << to_string(c.expected) << " |\n";
    out << "| the library gives | " << to_string(point(c.observed)) << " |\n\n";
  }
  if (!finding.legal) out << "The model is not valid; a library should refuse it, not end the process.\n\n";
  out << "## What the operators mean\n\n";
  for (const std::string& sentence : meanings(finding.sample)) out << "- " << sentence << "\n";
  out << "\n## The model\n\n```\n" << print_graph(graph(finding.sample)) << "```\n\n";
  for (const auto& [name, tensor] : finding.sample.inputs)
    out << "`" << name << " = " << print_tensor(tensor) << "`\n\n";
  if (!finding.law.empty())
    out << "It must give what this one gives, by the law \"" << finding.law << "\":\n\n```\n"
        << print_graph(graph(finding.before)) << "```\n\n";
  if (!finding.versions.empty()) out << "## Versions\n\n" << strip_text(finding.versions) << "\n\n";
  out << "## Known\n\n" << (finding.known.empty() ? "Not in finity's table of known faults." : finding.known) << "\n\n";
  out << "## Again\n\n    finity replay FOLDER\n";
  const std::string how = reproducer_use(finding);
  if (!how.empty()) out << "    " << how << "\n";
  return out.str();
}

using Files = std::vector<std::pair<std::string, std::string>>;

void add_sample(Files& files, const Sample& sample, const std::string& where) {
  const Graph model = graph(sample);
  files.emplace_back(where + "model.onnx", write_onnx(model));
  std::size_t index = 0;
  for (const ValueId id : model.main().inputs) {
    const std::string& name = model.value(id).name;
    files.emplace_back(where + "test_data_set_0/input_" + std::to_string(index++) + ".pb",
                       write_tensor_proto(sample.inputs.at(name), name));
  }
}

Sample read_sample(const fs::path& folder) {
  std::vector<Note> notes;
  const Graph model = read_model((folder / "model.onnx").string(), notes);
  const fs::path data = folder / "test_data_set_0";
  try {
    return sample_of(model, fs::is_directory(data) ? read_test_data(data.string(), model).inputs : Inputs());
  } catch (Error& error) {
    error.in(data.string());
    throw;
  }
}

std::string read_all(const fs::path& path) {
  const auto file = MappedFile::open(path.string());
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

}  // namespace

std::string title(const Finding& finding) {
  std::string text(name(finding.complaint.symptom));
  text += " in " + (finding.complaint.op.empty() ? op_chain(finding.sample) : finding.complaint.op);
  if (finding.complaint.level != Optimisation::none) text += ", only when the model is optimised";
  return text;
}

std::vector<std::pair<std::string, std::string>> finding_files(const Finding& finding) {
  Files files;
  add_sample(files, finding.sample, "");
  if (!finding.law.empty()) add_sample(files, finding.before, "before/");
  files.emplace_back(kFindingFile, description(finding).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  files.emplace_back("README.md", page(finding));
  for (auto& file : reproducers(finding)) files.push_back(std::move(file));
  return files;
}

void write_finding(const Finding& finding, const std::string& folder) {
  const fs::path whole(folder), part(folder + ".part");
  fs::remove_all(part);
  for (const auto& [name, content] : finding_files(finding)) {
    fs::create_directories((part / name).parent_path());
    write_file_atomically((part / name).string(), content);
  }
  fs::remove_all(whole);
  fs::rename(part, whole);
}

bool is_finding(const std::string& folder) { return fs::is_regular_file(fs::path(folder) / kFindingFile); }

StoredFinding read_finding(const std::string& folder) {
  const fs::path path = fs::path(folder) / kFindingFile;
  const json stored = json::parse(read_all(path), nullptr, false);
  if (!stored.is_object()) throw Error(path.string() + ": is not JSON");
  StoredFinding result;
  try {
    result.backend = parse_specs(stored.at("backend").get<std::string>()).front();
    result.symptom = stored.at("symptom").get<std::string>();
    result.optimised = stored.at("optimised").get<bool>();
    result.evidence.legal = stored.at("legal").get<bool>();
    result.evidence.derivative = stored.at("derivative").get<bool>();
    result.evidence.by_distance = stored.value("by_distance", false);
    result.evidence.law = stored.value("law", "");
    result.proven = stored.at("proven").get<bool>();
    result.op = stored.at("op").get<std::string>();
    result.text = stored.at("text").get<std::string>();
  } catch (const json::exception&) {
    throw Error(path.string() + ": is not the description of a finding");
  }
  result.evidence.sample = read_sample(folder);
  if (!result.evidence.law.empty()) result.evidence.before = read_sample(fs::path(folder) / "before");
  return result;
}

}  // namespace finity::fuzz
