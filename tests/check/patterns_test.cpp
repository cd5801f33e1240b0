// examples/patterns/expected.tsv: what the checker says of each model there, and inputs on which the
// defective ones really fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "check/verify.h"
#include "formats/model_format.h"
#include "formats/text/text.h"
#include "support/check_case.h"
#include "support/check_model.h"
#include "support/paths.h"
#include "support/support.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string options = {};
  std::string node = {};  // by one of its results, or a constant; "*": the whole model
  std::string rule = {};
  std::string verdict = {};
  std::string witness = {};  // "x = 3; y = {1, 2}": inputs that fail
  int line = 0;
};

struct Model {
  std::string file = {};
  std::vector<Row> rows = {};
};

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, mark);) parts.push_back(part);
  return parts;
}

std::vector<Model> expected_models() {
  std::map<std::string, Model> models;
  std::istringstream in(read_text_file(examples_folder() + "/patterns/expected.tsv"));
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line.starts_with("#")) continue;
    std::vector<std::string> cells = split(line, '\t');
    cells.resize(6);
    Model& model = models[cells[0]];
    model.file = cells[0];
    model.rows.push_back({cells[1], cells[2], cells[3], cells[4], cells[5], number});
  }
  std::vector<Model> result;
  for (auto& [file, model] : models) result.push_back(std::move(model));
  return result;
}

// The options of `finity check` that the table uses.
CheckCase read_options(const Row& row, const std::string& file) {
  CheckCase result;
  result.file = file;
  std::istringstream in(row.options);
  for (std::string option, value; in >> option;) {
    if (option == "-") continue;
    if (!(in >> value)) throw Error(option + " needs a value");
    if (option == "--range") add_range(result.contract, value);
    else if (option == "--contract") result.contract = read_contract(examples_folder() + "/../" + value);
    else if (option == "--as") result.target = dtype_from_name(value).value();
    else throw Error("the table cannot use " + option);
  }
  return result;
}

bool is_called(const Graph& graph, const Finding& finding, const std::string& name) {
  if (!finding.node.valid()) return finding.value.valid() && graph.value(finding.value).name == name;
  return std::ranges::any_of(graph.node(finding.node).outputs,
                             [&](ValueId id) { return id.valid() && graph.value(id).name == name; });
}

std::string open_findings(const CheckedModel& checked) {
  std::string text;
  for (const Finding& finding : checked.analysis.findings) {
    if (finding.verdict != Verdict::proved) text += describe_finding(checked.graph, finding);
  }
  return text.empty() ? "everything is proved\n" : text;
}

auto agrees(const Row& row, const Graph& graph) {
  return [&](const Finding& finding) {
    const bool warns = row.verdict == "known-false-alarm" && finding.verdict == Verdict::possible;
    return finding.rule == row.rule && (warns || name(finding.verdict) == row.verdict) &&
           is_called(graph, finding, row.node);
  };
}

class Patterns : public testing::TestWithParam<Model> {};

TEST_P(Patterns, AreJudgedAsExpected) {
  const Model& model = GetParam();
  CheckCase test = read_options(model.rows.front(), model.file);
  std::vector<Note> notes;
  test.graph = read_model(examples_folder() + "/patterns/" + model.file, notes);
  const CheckedModel result = check(test);
  for (const Row& row : model.rows) {
    const std::string place = "expected.tsv:" + std::to_string(row.line) + ": ";
    EXPECT_EQ(row.options, model.rows.front().options) << place << "one contract per model";
    if (row.node == "*") continue;
    EXPECT_TRUE(std::ranges::any_of(result.analysis.findings, agrees(row, result.graph)))
        << place << row.node << " " << row.rule << " is not " << row.verdict << "\n"
        << open_findings(result);
  }
  for (const Finding& finding : result.analysis.findings) {
    if (finding.verdict == Verdict::proved || finding.root >= 0) continue;
    const auto covers = [&](const Row& row) { return is_called(result.graph, finding, row.node); };
    EXPECT_TRUE(std::ranges::any_of(model.rows, covers)) << model.file << ": an alarm the table does not have:\n"
                                                         << describe_finding(result.graph, finding);
  }
}

TEST_P(Patterns, StayInTheirRanges) {
  const Model& model = GetParam();
  CheckCase test = read_options(model.rows.front(), model.file);
  std::vector<Note> notes;
  test.graph = read_model(examples_folder() + "/patterns/" + model.file, notes);
  const CheckedModel result = check(test);
  EXPECT_NO_THROW(verify(result.graph, result.types, result.premises, result.analysis, {.runs = 20}));
}

// A number for every element, the elements in braces, or a whole tensor.
Tensor witness_tensor(const Type& type, const std::string& text) {
  const auto dims = type.dims();
  if (!dims) return parse_tensor(text);
  const std::string prefix = std::string(name(type.dtype)) + to_string(*dims);
  return text.starts_with("{") ? parse_tensor(prefix + " " + text) : filled(type.dtype, *dims, text);
}

// "x = 3; y = {1, 2}" for the inputs of a graph.
Inputs read_witness(const Graph& graph, const std::string& text) {
  Inputs inputs;
  const Types types = infer_types(graph);
  for (const std::string& part : split(text, ';')) {
    const std::size_t start = part.find_first_not_of(' ');
    const std::size_t equals = part.find(" = ");
    if (equals == std::string::npos) throw Error("'" + part + "' is not 'name = value'");
    const std::string name = part.substr(start, equals - start);
    for (const ValueId id : graph.main().inputs) {
      if (graph.value(id).name == name) inputs[name] = witness_tensor(types[id], part.substr(equals + 3));
    }
  }
  return inputs;
}

// Fails at the row's node, or at the one named first in "node: x = 3".
std::string why_witness_fails_not(const Graph& graph, const Row& row) {
  const std::size_t colon = row.witness.find(": ");
  if (colon == std::string::npos) return why_no_failure(graph, read_witness(graph, row.witness), row.node);
  return why_no_failure(graph, read_witness(graph, row.witness.substr(colon + 2)), row.witness.substr(0, colon));
}

TEST_P(Patterns, DefectiveOnesReallyFail) {
  const Model& model = GetParam();
  std::vector<Note> notes;
  const Graph graph = read_model(examples_folder() + "/patterns/" + model.file, notes);
  int witnesses = 0;
  for (const Row& row : model.rows) {
    if (row.witness.empty()) continue;
    ++witnesses;
    if (row.witness == "random") continue;  // no input makes it fail, a rare draw of the model's own does
    EXPECT_EQ(why_witness_fails_not(graph, row), "") << "expected.tsv:" << row.line << ": the witness does not fail";
  }
  const bool defective = model.file.find("_buggy") != std::string::npos;
  EXPECT_EQ(defective, witnesses > 0) << model.file << ": a witness for every defective model, and only for those";
}

TEST(PatternTable, IsDocumented) {
  const std::string page = read_text_file(examples_folder() + "/../docs/patterns.md");
  for (const Model& model : expected_models()) {
    const std::string stem = model.file.substr(0, model.file.rfind('_'));
    EXPECT_NE(page.find("`" + stem + "`"), std::string::npos) << "docs/patterns.md does not have " << stem;
  }
}

TEST(PatternTable, HasEveryModel) {
  std::set<std::string> listed;
  for (const Model& model : expected_models()) listed.insert(model.file);
  for (const auto& entry : fs::directory_iterator(examples_folder() + "/patterns")) {
    if (entry.path().extension() != ".onnx") continue;
    EXPECT_TRUE(listed.contains(entry.path().filename())) << entry.path() << " has no row";
  }
}

// The page tells which options its verdicts hold with.
TEST(PatternsPage, NamesTheOptions) {
  const std::string page = read_text_file(examples_folder() + "/../docs/patterns.md");
  for (const Model& model : expected_models()) {
    const std::string name = "`" + model.file.substr(0, model.file.rfind('_')) + "`";
    std::istringstream lines(page);
    std::string found;
    for (std::string line; std::getline(lines, line);) {
      if (line.find(name) != std::string::npos) found = line;
    }
    std::erase(found, '\'');
    const std::string options = model.rows.front().options == "-" ? "none" : model.rows.front().options;
    EXPECT_NE(found.find(options), std::string::npos) << model.file << ": " << found;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Patterns, testing::ValuesIn(expected_models()),
                         [](const auto& info) { return fs::path(info.param.file).stem().string(); });

}  // namespace
}  // namespace finity
