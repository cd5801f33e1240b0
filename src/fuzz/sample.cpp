#include "fuzz/sample.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/builder.h"
#include "ops/table/op.h"

namespace finity::fuzz {

namespace {

// The oldest IR that goes with the operator set; old runtimes refuse newer ones. Before 4, weights had to be inputs.
int ir_version(int opset) {
  constexpr std::pair<int, int> kFirst[] = {{9, 4}, {10, 5}, {11, 6}, {14, 7}, {18, 8}, {20, 9}, {22, 10}};
  for (const auto& [last, ir] : kFirst) {
    if (opset <= last) return ir;
  }
  return 11;
}

void add_step(GraphBuilder& builder, BodyId body, const Step& step, int opset,
              std::map<std::string, ValueId, std::less<>>& values) {
  Node node;
  node.op = find_op(step.domain, step.op);
  if (node.op == nullptr) throw Error("there is no op " + step.op);
  node.op_type = builder.intern(step.op);
  node.domain = builder.intern(step.domain);
  node.version = step.domain.empty() ? opset : 1;
  builder.info().opsets[step.domain] = node.version;
  node.body = body;
  node.attrs = step.attrs;
  for (const std::string& input : step.inputs) {
    if (!input.empty() && !values.contains(input)) throw Error("nothing computes '" + input + "'");
    node.inputs.push_back(input.empty() ? ValueId{} : values.find(input)->second);
  }
  for (const std::string& output : step.outputs) {
    node.outputs.push_back(output.empty() ? ValueId{} : builder.add_value(body, output));
    if (!output.empty()) values[output] = node.outputs.back();
  }
  builder.add_node(std::move(node));
}

}  // namespace

Graph graph(const Sample& sample, bool exposed) {
  GraphBuilder builder;
  const BodyId body = builder.add_body("sample");
  builder.info().ir_version = ir_version(sample.opset);
  builder.info().opsets[""] = sample.opset;
  builder.info().producer_name = "finity";
  std::map<std::string, ValueId, std::less<>> values;
  for (const auto& [name, tensor] : sample.inputs)
    values[name] = builder.add_input(body, name, Type::tensor_of(tensor.dtype(), tensor.dims()));
  for (const auto& [name, tensor] : sample.constants)
    values[name] = builder.add_constant(body, name, make_constant(tensor));
  for (const Step& step : sample.steps) add_step(builder, body, step, sample.opset, values);
  std::set<std::string, std::less<>> done;
  for (const std::string& output : sample.outputs) {
    if (done.insert(output).second) builder.add_output(body, values.at(output));
  }
  for (const Step& step : sample.steps) {
    for (const std::string& output : step.outputs) {
      if (exposed && !output.empty() && done.insert(output).second) builder.add_output(body, values.at(output));
    }
  }
  return std::move(builder).build();
}

Inputs inputs_of(const Sample& sample) {
  Inputs result;
  for (const auto& [name, tensor] : sample.inputs) result[name] = tensor;
  return result;
}

bool is_given(const Sample& sample, std::string_view name) { return given(sample, name) != nullptr; }

const Tensor* given(const Sample& sample, std::string_view name) {
  for (const auto* tensors : {&sample.inputs, &sample.constants}) {
    if (const auto found = tensors->find(name); found != tensors->end()) return &found->second;
  }
  return nullptr;
}

void drop_unneeded(Sample& sample) {
  std::set<std::string, std::less<>> needed(sample.outputs.begin(), sample.outputs.end());
  std::vector<Step> kept;
  for (auto step = sample.steps.rbegin(); step != sample.steps.rend(); ++step) {
    if (std::ranges::none_of(step->outputs, [&](const std::string& out) { return needed.contains(out); })) continue;
    needed.insert(step->inputs.begin(), step->inputs.end());
    kept.push_back(*step);
  }
  std::ranges::reverse(kept);
  sample.steps = std::move(kept);
  const auto unused = [&](const auto& entry) { return !needed.contains(entry.first); };
  std::erase_if(sample.inputs, unused);
  std::erase_if(sample.constants, unused);
}

std::string fresh_name(const Sample& sample, std::string_view stem) {
  const auto taken = [&](const std::string& name) {
    return is_given(sample, name) || std::ranges::any_of(sample.steps, [&](const Step& step) {
             return std::ranges::find(step.outputs, name) != step.outputs.end();
           });
  };
  std::string name;
  for (std::size_t i = 0; name.empty() || taken(name); ++i) name = std::string(stem) + std::to_string(i);
  return name;
}

std::vector<std::string> loose_ends(const Sample& sample) {
  std::set<std::string, std::less<>> used;
  for (const Step& step : sample.steps) used.insert(step.inputs.begin(), step.inputs.end());
  std::vector<std::string> ends;
  for (const Step& step : sample.steps) {
    for (const std::string& output : step.outputs) {
      if (!output.empty() && !used.contains(output)) ends.push_back(output);
    }
  }
  return ends;
}

std::string op_chain(const Sample& sample) {
  std::string text;
  for (const Step& step : sample.steps) text += (text.empty() ? "" : " -> ") + step.op;
  return text;
}

}  // namespace finity::fuzz
