#include "formats/text/cases.h"

#include <map>
#include <unordered_set>
#include <utility>

#include "formats/text/graph_parser.h"
#include "formats/text/lexer.h"
#include "formats/text/literals.h"

namespace finity {

namespace {

using textform::Lexer;

using Opsets = std::map<std::string, int, std::less<>>;

bool at_statement(const Lexer& in) {
  return !in.at_end() && !in.at_word("case") && !in.at_word("opset") && !in.at_word("expect") && !in.at_word("error");
}

// expect TENSOR [within TOLERANCE]
void read_expectation(Lexer& in, OpCase& result) {
  result.expected.push_back(textform::read_tensor(in));
  const std::size_t offset = in.peek().offset;
  if (!in.accept_word("within")) return;
  const double tolerance = textform::read_real(in, DType::float64);
  if (!(tolerance >= 0)) in.fail(offset, "a tolerance is not negative");
  if (result.tolerance != 0 && result.tolerance != tolerance) {
    in.fail(offset, "a case has one tolerance, which holds for all its outputs");
  }
  result.tolerance = tolerance;
}

void read_expectations(Lexer& in, OpCase& result) {
  const std::size_t offset = in.peek().offset;
  while (in.accept_word("expect")) read_expectation(in, result);
  if (in.accept_word("error")) {
    result.error = in.string("a string");
    if (result.error.empty()) in.fail(offset, "the expected error is empty");
    if (!result.expected.empty()) in.fail(offset, "a case expects outputs or an error, not both");
  }
}

// The outputs that the last node does not omit.
void add_outputs(GraphBuilder& builder) {
  const NodeId last = builder.body(Graph::kMain).nodes.back();
  for (const ValueId output : std::vector<ValueId>(builder.node(last).outputs)) {
    if (output.valid()) builder.add_output(Graph::kMain, output);
  }
}

OpCase read_case(Lexer& in, std::string_view file_name, const Opsets& opsets) {
  const std::size_t start = in.take().offset;
  OpCase result{.name = in.name("the name of the case"), .line = in.line_of(start)};
  const std::string title = "case '" + result.name + "' ";
  GraphBuilder builder;
  builder.info().file = file_name;
  builder.info().opsets = opsets;
  textform::GraphParser parser(in, builder, &result.inputs);
  parser.open_body(result.name);
  while (at_statement(in)) parser.read_statement();
  parser.close_body();
  if (builder.body(Graph::kMain).nodes.empty()) in.fail(start, title + "has no node");
  add_outputs(builder);
  read_expectations(in, result);
  result.graph = textform::build_graph(in, std::move(builder));
  const std::size_t outputs = result.graph.main().outputs.size();
  if (result.error.empty() && result.expected.size() != outputs) {
    in.fail(start, title + "has " + std::to_string(outputs) + " outputs and expects " +
                       std::to_string(result.expected.size()));
  }
  return result;
}

}  // namespace

std::vector<OpCase> parse_cases(std::string_view text, std::string_view file_name) {
  Lexer in(text, file_name);
  Opsets opsets;
  std::vector<OpCase> cases;
  std::unordered_set<std::string> names;
  while (!in.at_end()) {
    const std::size_t start = in.peek().offset;
    if (in.accept_word("opset")) {
      const auto [domain, version] = textform::read_opset(in);
      opsets[domain] = version;
    } else if (in.at_word("case")) {
      cases.push_back(read_case(in, file_name, opsets));
      if (!names.insert(cases.back().name).second) {
        in.fail(start, "case '" + cases.back().name + "' is there twice");
      }
    } else {
      in.fail_expected("'case' or 'opset'");
    }
  }
  return cases;
}

}  // namespace finity
