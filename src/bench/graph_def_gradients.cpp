#include "bench/graph_def_gradients.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"

namespace finity {

namespace {

using Added = GraphDefMaker::Added;
using Names = GraphDefMaker::Names;
using Attributes = GraphDefMaker::Attributes;

const Attributes kWhole = {{"T", "type: DT_INT32"}};

class Backward {
 public:
  explicit Backward(GraphDefMaker& maker) : maker_(maker), forward_(maker.added()) {
    for (std::size_t i = 0; i < forward_.size(); ++i) numbers_[forward_[i].name] = i;
    find_trained();
  }

  void run(const std::string& loss, double rate) {
    scope_ = "gradients";
    const std::string ones = op("Fill", {shape_of(loss), number(1, "grad_ys_0")}, "Fill");
    arriving_[loss] = {ones};
    for (std::size_t i = forward_.size(); i-- > 0;) {
      const Added& node = forward_[i];
      if (!trained_[i] || !arriving_.contains(node.name)) continue;
      scope_ = "gradients/" + node.name + "_grad";
      const std::string gradient = total(node.name);
      if (node.op == "VariableV2") apply(node.name, gradient, rate);
      else pass_on(node, gradient);
    }
  }

 private:
  using Rule = void (Backward::*)(const Added&, const std::string&);

  // What the values of variables flow into.
  void find_trained() {
    trained_.resize(forward_.size());
    for (std::size_t i = 0; i < forward_.size(); ++i) {
      const Added& node = forward_[i];
      const bool stops = node.op == "Assign" || node.op == "Cast" || node.op == "Floor" || node.op == "Shape";
      trained_[i] = node.op == "VariableV2" ||
                    (!stops && std::ranges::any_of(node.inputs, [&](const auto& input) { return trained(input); }));
    }
  }
  bool trained(const std::string& name) const { return trained_[numbers_.at(name)]; }

  std::string node(const std::string& op, const Names& inputs, const std::string& name, const Attributes& attributes) {
    return maker_.node(op, inputs, scope_ + "/" + (name.empty() ? op : name), attributes);
  }
  std::string op(const std::string& op, const Names& inputs, const std::string& name = "") {
    return node(op, inputs, name, {{"T", "type: DT_FLOAT"}});
  }
  std::string number(double x, const std::string& name) { return maker_.number(x, scope_ + "/" + name); }
  std::string axes(const std::vector<std::int64_t>& all) { return maker_.whole(all, scope_ + "/axes"); }
  std::string shape_of(const std::string& x) { return op("Shape", {x}); }

  std::string total(const std::string& name) {
    const Names& all = arriving_.at(name);
    if (all.size() == 1) return all.front();
    return node("AddN", all, "", {{"T", "type: DT_FLOAT"}, {"N", "i: " + std::to_string(all.size())}});
  }
  void give(const std::string& input, const std::string& gradient) {
    if (trained(input)) arriving_[input].push_back(gradient);
  }
  void apply(const std::string& variable, const std::string& gradient, double rate) {
    scope_ = "GradientDescent";
    if (rate_.empty()) rate_ = number(rate, "learning_rate");
    op("ApplyGradientDescent", {variable, rate_, gradient}, "update_" + variable + "/ApplyGradientDescent");
  }

  // Summed over the axes along which either operand was repeated.
  void give_reduced(const Added& at, const std::string& first, const std::string& second) {
    const std::string a = shape_of(at.inputs[0]), b = shape_of(at.inputs[1]);
    const std::string over = node("BroadcastGradientArgs", {a, b}, "", kWhole);
    const auto reduced = [&](const std::string& gradient, const std::string& place, const std::string& to) {
      const std::string sum = node("Sum", {gradient, place}, "",
                                   {{"T", "type: DT_FLOAT"}, {"Tidx", "type: DT_INT32"}, {"keep_dims", "b: false"}});
      return node("Reshape", {sum, to}, "", {{"T", "type: DT_FLOAT"}, {"Tshape", "type: DT_INT32"}});
    };
    if (trained(at.inputs[0])) give(at.inputs[0], reduced(first, over, a));
    if (trained(at.inputs[1])) give(at.inputs[1], reduced(second, over + ":1", b));
  }

  void of_add(const Added& at, const std::string& g) { give_reduced(at, g, g); }
  void of_sub(const Added& at, const std::string& g) { give_reduced(at, g, op("Neg", {g})); }
  void of_mul(const Added& at, const std::string& g) {
    give_reduced(at, op("Mul", {g, at.inputs[1]}), op("Mul", {g, at.inputs[0]}));
  }
  void of_div(const Added& at, const std::string& g) {
    const std::string& a = at.inputs[0];
    const std::string& b = at.inputs[1];
    const std::string first = op("RealDiv", {g, b});
    if (!trained(b)) return give_reduced(at, first, first);
    give_reduced(at, first, op("Mul", {g, op("RealDiv", {op("RealDiv", {op("Neg", {a}), b}), b})}));
  }
  void of_choice(const Added& at, const std::string& g) {
    const std::string mask = op(at.op == "Maximum" ? "GreaterEqual" : "LessEqual", at.inputs);
    const std::string zeros = op("ZerosLike", {g});
    give_reduced(at, op("Select", {mask, g, zeros}), op("Select", {mask, zeros, g}));
  }
  void of_neg(const Added& at, const std::string& g) { give(at.inputs[0], op("Neg", {g})); }
  void of_log(const Added& at, const std::string& g) {
    give(at.inputs[0], op("Mul", {g, op("Reciprocal", {at.inputs[0]})}));
  }
  void of_exp(const Added& at, const std::string& g) { give(at.inputs[0], op("Mul", {g, at.name})); }
  void of_identity(const Added& at, const std::string& g) { give(at.inputs[0], g); }
  void of_add_n(const Added& at, const std::string& g) {
    for (const std::string& input : at.inputs) give(input, g);
  }
  // By the kernel of that name: (result, gradient).
  void of_activation(const Added& at, const std::string& g) { give(at.inputs[0], op(at.op + "Grad", {at.name, g})); }
  void of_relu(const Added& at, const std::string& g) { give(at.inputs[0], op("ReluGrad", {g, at.name})); }
  void of_softmax(const Added& at, const std::string& g) {
    const std::string sum = node("Sum", {op("Mul", {g, at.name}), axes({1})}, "",
                                 {{"T", "type: DT_FLOAT"}, {"Tidx", "type: DT_INT32"}, {"keep_dims", "b: true"}});
    give(at.inputs[0], op("Mul", {op("Sub", {g, sum}), at.name}));
  }
  void of_softmax_loss(const Added& at, const std::string& g) {
    give(at.inputs[0], op("Mul", {column(g), at.name + ":1"}));
  }
  std::string column(const std::string& x) {
    return node("ExpandDims", {x, maker_.whole_number(-1, scope_ + "/dim")}, "",
                {{"T", "type: DT_FLOAT"}, {"Tdim", "type: DT_INT32"}});
  }

  // A gradient of what was reduced, in the shape of the operand.
  std::string spread(const Added& at, std::string g) {
    const bool kept = std::ranges::any_of(at.attributes, [](const auto& attribute) {
      return attribute.key == "keep_dims" && attribute.value == "b: true";
    });
    const Added& over = forward_[numbers_.at(at.inputs[1])];
    for (const std::int64_t axis : over.numbers) {
      if (!kept) {
        g = node("ExpandDims", {g, maker_.whole_number(axis, scope_ + "/dim")}, "",
                 {{"T", "type: DT_FLOAT"}, {"Tdim", "type: DT_INT32"}});
      }
    }
    return op("Mul", {op("OnesLike", {at.inputs[0]}), g});
  }
  void of_sum(const Added& at, const std::string& g) { give(at.inputs[0], spread(at, g)); }
  void of_mean(const Added& at, const std::string& g) {
    const std::string one = maker_.whole_number(1, scope_ + "/Maximum/y");
    const std::string rest = node("Maximum", {op("Size", {at.name}), one}, "", kWhole);
    const std::string count = node("FloorDiv", {op("Size", {at.inputs[0]}), rest}, "", kWhole);
    const std::string number = node("Cast", {count}, "", {{"SrcT", "type: DT_INT32"}, {"DstT", "type: DT_FLOAT"}});
    give(at.inputs[0], op("RealDiv", {spread(at, g), number}));
  }
  // Shared among the largest.
  void of_max(const Added& at, const std::string& g) {
    const std::string equal = op("Equal", {at.inputs[0], at.name});
    const std::string ones = node("Cast", {equal}, "", {{"SrcT", "type: DT_BOOL"}, {"DstT", "type: DT_FLOAT"}});
    const std::string count = node("Sum", {ones, at.inputs[1]}, "",
                                   {{"T", "type: DT_FLOAT"}, {"Tidx", "type: DT_INT32"}, {"keep_dims", "b: true"}});
    give(at.inputs[0], op("Mul", {op("RealDiv", {ones, count}), g}));
  }
  void of_reshape(const Added& at, const std::string& g) {
    give(at.inputs[0],
         node("Reshape", {g, shape_of(at.inputs[0])}, "", {{"T", "type: DT_FLOAT"}, {"Tshape", "type: DT_INT32"}}));
  }
  // Zeros before and behind what was cut out.
  void of_slice(const Added& at, const std::string& g) {
    const std::string behind =
        node("Sub", {node("Sub", {shape_of(at.inputs[0]), shape_of(at.name)}, "", kWhole), at.inputs[1]}, "", kWhole);
    const std::string paddings =
        node("Pack", {at.inputs[1], behind}, "", {{"T", "type: DT_INT32"}, {"N", "i: 2"}, {"axis", "i: 1"}});
    give(at.inputs[0], node("Pad", {g, paddings}, "", {{"T", "type: DT_FLOAT"}, {"Tpaddings", "type: DT_INT32"}}));
  }
  void of_matmul(const Added& at, const std::string& g) {
    const bool batched = at.op == "BatchMatMul";
    const auto product = [&](const std::string& a, const std::string& b, bool first) {
      const std::string flag = batched ? first ? "adj_x" : "adj_y" : first ? "transpose_a" : "transpose_b";
      return node(at.op, {a, b}, "", {{"T", "type: DT_FLOAT"}, {flag, "b: true"}});
    };
    if (trained(at.inputs[0])) give(at.inputs[0], product(g, at.inputs[1], false));
    if (trained(at.inputs[1])) give(at.inputs[1], product(at.inputs[0], g, true));
  }
  void of_bias(const Added& at, const std::string& g) {
    give(at.inputs[0], g);
    give(at.inputs[1], op("BiasAddGrad", {g}));
  }
  void of_conv(const Added& at, const std::string& g) {
    const std::string& x = at.inputs[0];
    const std::string& w = at.inputs[1];
    if (trained(x)) give(x, node("Conv2DBackpropInput", {shape_of(x), w, g}, "", at.attributes));
    give(w, node("Conv2DBackpropFilter", {x, shape_of(w), g}, "", at.attributes));
  }
  void of_pool(const Added& at, const std::string& g) {
    give(at.inputs[0], node("MaxPoolGrad", {at.inputs[0], at.name, g}, "", at.attributes));
  }

  void pass_on(const Added& at, const std::string& gradient) {
    static const std::map<std::string, Rule, std::less<>> kRules = {
        {"Add", &Backward::of_add},
        {"AddN", &Backward::of_add_n},
        {"BatchMatMul", &Backward::of_matmul},
        {"BiasAdd", &Backward::of_bias},
        {"Conv2D", &Backward::of_conv},
        {"Exp", &Backward::of_exp},
        {"Identity", &Backward::of_identity},
        {"Log", &Backward::of_log},
        {"MatMul", &Backward::of_matmul},
        {"Max", &Backward::of_max},
        {"MaxPool", &Backward::of_pool},
        {"Maximum", &Backward::of_choice},
        {"Mean", &Backward::of_mean},
        {"Minimum", &Backward::of_choice},
        {"Mul", &Backward::of_mul},
        {"Neg", &Backward::of_neg},
        {"RealDiv", &Backward::of_div},
        {"Relu", &Backward::of_relu},
        {"Reshape", &Backward::of_reshape},
        {"Sigmoid", &Backward::of_activation},
        {"Slice", &Backward::of_slice},
        {"Softmax", &Backward::of_softmax},
        {"SoftmaxCrossEntropyWithLogits", &Backward::of_softmax_loss},
        {"Sub", &Backward::of_sub},
        {"Sum", &Backward::of_sum},
        {"Tanh", &Backward::of_activation},
    };
    const auto rule = kRules.find(at.op);
    if (rule == kRules.end()) throw Error("node '" + at.name + "': no derivative of " + at.op + " is written here");
    (this->*rule->second)(at, gradient);
  }

  GraphDefMaker& maker_;
  const std::vector<Added> forward_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<bool> trained_;
  std::unordered_map<std::string, Names> arriving_;
  std::string scope_, rate_;
};

}  // namespace

void add_training_step(GraphDefMaker& maker, const std::string& loss, double rate) { Backward(maker).run(loss, rate); }

}  // namespace finity
