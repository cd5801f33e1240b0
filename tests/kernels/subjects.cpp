#include "kernels/subjects.h"

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "check/convert.h"
#include "formats/text/cases.h"
#include "formats/text/text.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity::kernels {

namespace {

constexpr std::int64_t kMostElements = 4096;

// A case file, with more or less of the operands known.
std::vector<std::pair<std::string, std::string>> told(std::string text) {
  // Runtimes want a name for every graph.
  static const std::regex kNameless(R"(= graph \()");
  text = std::regex_replace(text, kNameless, "= graph body (");
  // Operands that say how become constants: `Slice(x, int64[1] {0}, ...`.
  static const std::regex kIntegers(R"(([(,] ?)((?:u?int[0-9]+|bool)\[))");
  // So do weights: all floats but the first operand.
  static const std::regex kWeights(R"((, ?)(b?float[0-9]+\[))");
  std::string integers, weights;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const bool expected = line.starts_with("  expect ");
    const std::string known = expected ? line : std::regex_replace(line, kIntegers, "$1const $2");
    integers += known + "\n";
    weights += (expected ? line : std::regex_replace(known, kWeights, "$1const $2")) + "\n";
  }
  return {{"", text}, {", integers constant", integers}, {", weights constant", weights}};
}

Inputs inputs_of(const OpCase& test) {
  Inputs inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs[test.graph.value(test.graph.main().inputs[i]).name] = test.inputs[i];
  }
  return inputs;
}

// The same elements, as often as they fit, in the dtype and sizes that the graph now wants.
Inputs fitting(const Graph& graph, Inputs inputs) {
  for (const ValueId id : graph.main().inputs) {
    const auto found = inputs.find(graph.value(id).name);
    const Tensor* tensor = found == inputs.end() ? nullptr : found->second.tensor();
    const Type& type = graph.value(id).type;
    const std::optional<Dims> dims = type.dims();
    if (tensor == nullptr || !dims || tensor->dtype() == DType::string) continue;
    if (tensor->dtype() == type.dtype && tensor->dims() == *dims) continue;
    if (is_complex(type.dtype)) continue;
    const std::vector<double> given = elements<double>(*tensor);
    std::vector<double> wanted(static_cast<std::size_t>(element_count(*dims)));
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = given.empty() ? 0 : given[i % given.size()];
    found->second = from_elements<double>(type.dtype, *dims, wanted);
  }
  return inputs;
}

// All axes of the inputs that have one size get another: what belonged together still does.
std::string with_size(const std::string& text, std::int64_t from, std::int64_t to) {
  static const std::regex kSizes(R"(\[[0-9, ]+\])");
  const std::size_t begin = text.find("graph "), end = text.find(" {\n", begin);
  const std::string header = text.substr(begin, end - begin);
  const std::regex wanted("\\b" + std::to_string(from) + "\\b");
  std::string changed;
  auto at = header.cbegin();
  for (std::sregex_iterator it(header.begin(), header.end(), kSizes); it != std::sregex_iterator(); ++it) {
    changed.append(at, (*it)[0].first);
    changed += std::regex_replace(it->str(), wanted, std::to_string(to));
    at = (*it)[0].second;
  }
  changed.append(at, header.cend());
  return text.substr(0, begin) + changed + text.substr(end);
}

std::vector<std::int64_t> sizes_of(const Graph& graph) {
  std::set<std::int64_t> sizes;
  for (const ValueId id : graph.main().inputs) {
    const std::optional<Dims> dims = graph.value(id).type.dims();
    if (dims && is_float(graph.value(id).type.dtype)) sizes.insert(dims->begin(), dims->end());
  }
  return {sizes.begin(), sizes.end()};
}

bool too_large(const Graph& graph) {
  return std::ranges::any_of(graph.main().inputs, [&](ValueId id) {
    const std::optional<Dims> dims = graph.value(id).type.dims();
    return dims && element_count(*dims) > kMostElements;
  });
}

// A window of a thousand million elements only takes time.
bool takes_long(const Graph& graph) {
  constexpr std::int64_t kMost = 1 << 20;
  const auto huge = [](const auto& attr) {
    const auto* list = std::get_if<std::vector<std::int64_t>>(&attr.second);
    return list != nullptr && std::ranges::any_of(*list, [](std::int64_t x) { return x > kMost; });
  };
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) { return std::ranges::any_of(node.attrs, huge); });
}

class Maker {
 public:
  Maker(const OpCase& test, std::string how, bool chain, const Visitor& visit)
      : test_(test), how_(std::move(how)), chain_(chain), visit_(visit) {}

  void make(Rng& rng, bool other_formats, bool other_opsets = false) {
    give(test_.graph, inputs_of(test_), "");
    if (other_opsets) change_opset();
    if (other_formats) {
      for (const DType dtype : {DType::float16, DType::float64, DType::bfloat16}) convert(dtype);
    }
    for (int time = 0; time < 3; ++time) resize(rng);
  }

 private:
  void give(Graph graph, Inputs inputs, const std::string& change) {
    if (takes_long(graph)) return;
    Subject subject;
    try {
      subject.types = infer_types(graph);
    } catch (const Error&) {
      return;  // the change makes no sense for this op
    }
    const Node& last = graph.node(graph.main().nodes.back());
    subject.op = chain_ ? "chain " + test_.name : qualified_op(last);
    subject.dtype = dtype_label(graph, subject.types, chain_ ? graph.node(graph.main().nodes.front()) : last);
    subject.name = test_.name + how_ + change;
    subject.graph = std::move(graph);
    subject.inputs = std::move(inputs);
    visit_(subject);
  }

  void convert(DType target) {
    Graph graph;
    try {
      Conversion conversion = convert_floats(test_.graph, infer_types(test_.graph), target);
      if (!conversion.kept.empty()) return;
      graph = std::move(conversion.graph);
    } catch (const Error&) {
      return;
    }
    if (print_graph(graph) == print_graph(test_.graph)) return;  // it has no such floats
    Inputs inputs = fitting(graph, inputs_of(test_));
    give(std::move(graph), std::move(inputs), ", as " + std::string(name(target)));
  }

  // A runtime may take a function body of the standard for an op, but only in the operator set that defined the body.
  void change_opset() {
    static const std::regex kOpset(R"((^|\n)opset [0-9]+\n)");
    const std::string text = print_graph(test_.graph, {.max_elements = -1});
    for (const int opset : {17, 18, 19, 20, 21, 22, 23}) {
      const std::string changed = std::regex_replace(text, kOpset, "$1opset " + std::to_string(opset) + "\n");
      if (changed == text) continue;
      try {
        Graph graph = parse_graph(changed, "case");
        const Types types = infer_types(graph);
        Conversion half = convert_floats(graph, types, DType::float16);
        const std::string change = ", opset " + std::to_string(opset);
        give(std::move(graph), inputs_of(test_), change);
        if (!half.kept.empty()) continue;
        Inputs inputs = fitting(half.graph, inputs_of(test_));
        give(std::move(half.graph), std::move(inputs), change + ", as float16");
      } catch (const Error&) {
      }
    }
  }

  void resize(Rng& rng) {
    constexpr std::int64_t kSizes[] = {0, 1, 3, 8, 17, 40};
    const std::vector<std::int64_t> sizes = sizes_of(test_.graph);
    if (sizes.empty()) return;
    const std::int64_t from = sizes[rng.below(sizes.size())], to = kSizes[rng.below(std::size(kSizes))];
    if (from == to) return;
    try {
      Graph graph = parse_graph(with_size(print_graph(test_.graph, {.max_elements = -1}), from, to), "case");
      if (too_large(graph)) return;
      Inputs inputs = fitting(graph, inputs_of(test_));
      give(std::move(graph), std::move(inputs), ", " + std::to_string(to) + " for " + std::to_string(from));
    } catch (const Error&) {
    }
  }

  const OpCase& test_;
  std::string how_;
  bool chain_;
  const Visitor& visit_;
};

}  // namespace

std::string dtype_label(const Graph& graph, const Types& types, const Node& node) {
  DType first = DType::undefined;
  for (const std::vector<ValueId>* ids : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *ids) {
      if (!id.valid() || !types[id].is_tensor()) continue;
      const DType dtype = types[id].dtype;
      if (is_float(dtype)) return std::string(name(dtype));
      if (first == DType::undefined) first = dtype;
    }
  }
  // A sequence or an optional: of what the graph is given.
  for (const ValueId id : graph.main().inputs) {
    if (first == DType::undefined && types[id].is_tensor()) first = types[id].dtype;
  }
  return first == DType::undefined ? "none" : std::string(name(first));
}

void each_case(const std::string& path, std::uint64_t seed, const Visitor& visit) {
  for (const auto& [how, text] : told(read_text_file(path))) {
    for (const OpCase& test : parse_cases(text, path)) {
      if (!test.error.empty() || test.graph.main().nodes.empty()) continue;
      Rng rng(std::hash<std::string>{}(test.name + how) + seed);
      Maker(test, how, false, visit).make(rng, how.empty());
    }
  }
}

namespace {

// The graphs of a file, each with the operator sets that were last named before it.
std::vector<std::string> graphs_of(const std::string& text) {
  std::vector<std::string> graphs;
  std::string opsets;
  bool open = false;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("opset ")) {
      if (open) opsets.clear();
      open = false;
      opsets += line + "\n";
      continue;
    }
    if (line.starts_with("graph ")) {
      graphs.push_back(opsets);
      open = true;
    }
    if (open) graphs.back() += line + "\n";
  }
  return graphs;
}

Tensor ordinary(const std::string& name, DType dtype, const Dims& dims, Rng& rng) {
  std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
  for (double& value : values) {
    if (!is_float(dtype)) value = static_cast<double>(rng.below(2));
    else value = name.starts_with("var") ? rng.uniform(0.1, 2) : rng.uniform(-2, 2);
  }
  return from_elements<double>(dtype, dims, values);
}

// The graph in the text form, its inputs on one line.
std::string on_one_line(const Graph& graph) {
  static const std::regex kBreak(R"(\n *)");
  std::string text = print_graph(graph, {.max_elements = -1});
  const std::size_t begin = text.find("graph "), end = text.find(" {\n", begin);
  std::string header = std::regex_replace(text.substr(begin, end - begin), kBreak, " ");
  return text.substr(0, begin) + header + text.substr(end);
}

// All inputs but the first become constants.
Graph with_weights(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::string text = on_one_line(graph);
  std::string constants;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const std::string& name = graph.value(graph.main().inputs[i]).name;
    const std::string tensor = print_tensor(inputs[i]);
    const std::size_t brace = tensor.find(" {");
    const std::string declared = name + ": " + tensor.substr(0, brace);
    text.replace(text.find(", " + declared), declared.size() + 2, "");
    constants += "  const " + declared + " =" + tensor.substr(brace) + "\n";
  }
  text.insert(text.find(" {\n", text.find("graph ")) + 3, constants);
  return parse_graph(text, "weights");
}

}  // namespace

void each_graph(const std::string& path, std::uint64_t seed, const Visitor& visit) {
  for (const std::string& text : graphs_of(read_text_file(path))) {
    OpCase test{.graph = parse_graph(text, path)};
    test.name = test.graph.main().name;
    const bool chain = test.graph.nodes().size() > 1;
    Rng rng(std::hash<std::string>{}(test.name) + seed);
    for (const ValueId id : test.graph.main().inputs) {
      const Value& value = test.graph.value(id);
      test.inputs.push_back(ordinary(value.name, value.type.dtype, *value.type.dims(), rng));
    }
    Maker(test, "", chain, visit).make(rng, true, true);
    if (test.inputs.size() < 2) continue;
    test.graph = with_weights(test.graph, test.inputs);
    test.inputs.resize(1);
    Maker(test, ", weights constant", chain, visit).make(rng, true);
  }
}

}  // namespace finity::kernels
