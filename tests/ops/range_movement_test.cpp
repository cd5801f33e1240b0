// Range rules of data movement: rows of a table, each run many times with random
// ranges and grids, and with as much or as little known as chance has it (elements of
// parameters, sizes, ranks). What eval gives for random members lies in its cell, and
// every form that is spelled out gives exactly the element.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "domain/concrete.h"
#include "exec/reference.h"
#include "formats/text/text.h"
#include "ops/table/op.h"
#include "ops/table/range_call.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity {
namespace {

struct Row {
  const char* node;
  std::vector<const char*> inputs;  // a, b, c, ...: a type is data of random elements, a tensor is a parameter
  int outputs = 1;
  int opset = 23;
};

const Row kRows[] = {
    {"Reshape(a, b)", {"float32[2, 3, 4]", "int64[2] {6, 4}"}},
    {"Reshape(a, b)", {"float32[2, 3, 4]", "int64[3] {0, -1, 2}"}},
    {"Reshape(a, b)", {"float32[6, 4]", "int64[4] {2, 3, 1, 4}"}},
    {"Reshape(a, b)", {"float32[2, 3, 4]", "int64[1] {-1}"}},
    {"Reshape(a, b)", {"float32[1, 4, 1, 3]", "int64[2] {4, 3}"}},
    {"Reshape(a, b) {allowzero = 1}", {"float32[2, 0]", "int64[2] {0, 3}"}},
    {"Reshape(a) {shape = [4, 3]}", {"float32[2, 6]"}, 1, 1},
    {"Flatten(a) {axis = 2}", {"float32[2, 3, 4, 2]"}},
    {"Flatten(a) {axis = 0}", {"float32[2, 3]"}},
    {"Flatten(a) {axis = 1}", {"float32[2, 3]"}},
    {"Squeeze(a, b)", {"float32[2, 1, 3, 1]", "int64[1] {-1}"}},
    {"Squeeze(a, b)", {"float32[1, 2, 1, 3]", "int64[2] {2, 0}"}},
    {"Squeeze(a)", {"float32[1, 2, 1, 3]"}},
    {"Squeeze(a) {axes = [1]}", {"float32[2, 1, 3]"}, 1, 11},
    {"Unsqueeze(a, b)", {"float32[2, 3]", "int64[2] {-1, 1}"}},
    {"Unsqueeze(a, b)", {"float32[]", "int64[1] {0}"}},
    {"Transpose(a) {perm = [2, 0, 1]}", {"float32[2, 3, 4]"}},
    {"Transpose(a)", {"float32[2, 3, 4]"}},
    {"Transpose(a) {perm = [0, 1]}", {"float32[2, 3]"}},
    {"Identity(a)", {"float32[2, 3]"}},
    {"Expand(a, b)", {"float32[3, 1]", "int64[3] {2, 1, 4}"}},
    {"Expand(a, b)", {"float32[3, 4]", "int64[1] {1}"}},
    {"Tile(a, b)", {"float32[2, 3]", "int64[2] {2, 1}"}},
    {"Tile(a, b)", {"float32[2, 3, 1]", "int64[3] {1, 3, 2}"}},
    {"Tile(a, b)", {"float32[2, 3]", "int64[2] {0, 2}"}},
    {"Tile(a, b, c)", {"float32[2, 3]", "float32[1] {2}", "float32[1] {1}"}, 1, 1},
    {"Slice(a, b, c)", {"float32[5, 4]", "int64[2] {1, 0}", "int64[2] {4, 3}"}},
    {"Slice(a, b, c, d)", {"float32[5, 4]", "int64[1] {-3}", "int64[1] {2147483647}", "int64[1] {-1}"}},
    {"Slice(a, b, c, d, e)", {"float32[7, 2]", "int64[1] {1}", "int64[1] {100}", "int64[1] {0}", "int64[1] {2}"}},
    {"Slice(a, b, c, d, e)",
     {"float32[6]", "int64[1] {-1}", "int64[1] {-9223372036854775807}", "int64[1] {0}", "int64[1] {-1}"}},
    {"Slice(a, b, c, d, e)",
     {"float32[2, 7]", "int32[2] {1, 6}", "int32[2] {2, 0}", "int32[2] {0, 1}", "int32[2] {1, -3}"}},
    {"Slice(a, b, c)", {"float32[5]", "int64[1] {3}", "int64[1] {2}"}},
    {"Slice(a) {axes = [1], starts = [1], ends = [-1]}", {"float32[3, 5]"}, 1, 9},
    {"Pad(a, b)", {"float32[2, 3]", "int64[4] {0, 1, 1, 2}"}},
    {"Pad(a, b, c)", {"float32[4, 3]", "int64[4] {-1, 1, 1, -1}", "float32[] {100}"}},
    {"Pad(a, b, c, d)", {"float32[2, 4]", "int64[2] {2, 1}", "float32[] {-inf}", "int64[1] {-1}"}},
    {"Pad(a, b, c)", {"float32[2]", "int64[2] {-3, 4}", "float32[] {3}"}},
    {"Pad(a, b) {mode = \"reflect\"}", {"float32[4, 3]", "int64[4] {2, 1, 3, 0}"}},
    {"Pad(a, b) {mode = \"edge\"}", {"float32[4, 3]", "int64[4] {2, 1, 3, 0}"}},
    {"Pad(a, b) {mode = \"wrap\"}", {"float32[4, 3]", "int64[4] {2, 1, 3, -1}"}},
    {"Pad(a) {pads = [1, 0], value = 2.5}", {"float32[3]"}, 1, 2},
    {"CenterCropPad(a, b)", {"float32[5, 2]", "int64[2] {2, 5}"}},
    {"CenterCropPad(a, b) {axes = [1]}", {"float32[5, 3]", "int64[1] {4}"}},
    {"Concat(a, b) {axis = 1}", {"float32[2, 3]", "float32[2, 2]"}},
    {"Concat(a, b, c) {axis = 0}", {"float32[2, 3]", "float32[0, 3]", "float32[3, 3]"}},
    {"Concat(a, a) {axis = -1}", {"float32[2, 3]"}},
    {"Concat(a) {axis = 0}", {"float32[2, 3]"}},
    {"Split(a, b) {axis = 1}", {"float32[2, 5]", "int64[2] {2, 3}"}, 2},
    {"Split(a) {axis = 0, num_outputs = 2}", {"float32[5, 3]"}, 2},
    {"Split(a) {axis = 1}", {"float32[2, 6]"}, 3, 13},
    {"Split(a) {axis = 0, split = [1, 2]}", {"float32[3]"}, 2, 11},
    {"Gather(a, b)", {"float32[5, 3]", "int64[] {2}"}},
    {"Gather(a, b) {axis = 1}", {"float32[2, 5, 3]", "int64[3] {4, -5, 2}"}},
    {"Gather(a, b) {axis = 1}", {"float32[2, 5]", "int64[2, 2] {1, 2, 3, 4}"}},
    {"Gather(a, b) {axis = 0}", {"float32[5, 2]", "int64[2, 1, 2] {3, 0, 3, -1}"}},
    {"Gather(a, b) {axis = 1}", {"float32[2, 5]", "int64[0] {}"}},
    {"GatherElements(a, b) {axis = 1}", {"float32[3, 4]", "int64[2, 2] {3, 0, -1, 1}"}},
    {"GatherElements(a, b) {axis = 0}",
     {"float32[3, 4]", "int64[5, 4] {0, 1, 2, 0, 1, 1, 1, 2, 2, 2, 2, 2, 0, 0, 0, 0, 1, 2, -1, -2}"}},
    {"GatherND(a, b)", {"float32[3, 4, 2]", "int64[2, 2] {2, 3, 0, -4}"}},
    {"GatherND(a, b)", {"float32[3, 4]", "int64[2, 1] {2, 0}"}},
    {"GatherND(a, b) {batch_dims = 1}", {"float32[2, 3, 4]", "int64[2, 1] {1, 2}"}},
    {"OneHot(a, b, c)", {"int64[4] {0, 2, -1, 1}", "int64[] {3}", "float32[2] {0, 1}"}},
    {"OneHot(a, b, c) {axis = 0}", {"int64[2, 2] {0, 7, -9, 1}", "int64[] {3}", "float32[2] {0, 1}"}},
    {"OneHot(a, b, c)", {"int64[4] {0, 2, -1, 1}", "int64[] {3}", "float32[2] {-5, 2.5}"}},
    {"ScatterElements(a, b, c) {axis = 1}", {"float32[2, 4]", "int64[2, 2] {3, 0, 1, -1}", "float32[2, 2]"}},
    {"ScatterElements(a, b, c) {reduction = \"add\"}", {"float32[3, 2]", "int64[2, 2] {1, 1, 1, 2}", "float32[2, 2]"}},
    {"ScatterElements(a, b, c) {reduction = \"mul\"}", {"float32[3, 2]", "int64[2, 2] {1, 1, 1, 2}", "float32[2, 2]"}},
    {"ScatterElements(a, b, c) {reduction = \"max\"}", {"float32[3, 2]", "int64[2, 2] {1, 1, 1, 2}", "float32[2, 2]"}},
    {"ScatterND(a, b, c)", {"float32[4, 2]", "int64[2, 1] {3, 1}", "float32[2, 2]"}},
    {"ScatterND(a, b, c) {reduction = \"min\"}", {"float32[4, 2]", "int64[2, 1] {3, 3}", "float32[2, 2]"}},
    {"ScatterND(a, b, c) {reduction = \"add\"}", {"float32[4]", "int64[3, 1] {3, 3, 3}", "float32[3]"}},
    {"TensorScatter(a, b, c)", {"float32[2, 4, 3]", "float32[2, 2, 3]", "int64[2] {0, 2}"}, 1, 24},
    {"Scatter(a, b, c)", {"float32[3, 2]", "int64[1, 2] {1, 2}", "float32[1, 2]"}, 1, 9},
    {"DepthToSpace(a) {blocksize = 2}", {"float32[1, 8, 2, 3]"}},
    {"DepthToSpace(a) {blocksize = 2, mode = \"CRD\"}", {"float32[2, 4, 2, 1]"}},
    {"SpaceToDepth(a) {blocksize = 2}", {"float32[1, 2, 4, 2]"}},
    {"ReverseSequence(a, b)", {"float32[4, 3, 2]", "int64[3] {4, 1, 2}"}},
    {"ReverseSequence(a, b) {time_axis = 1, batch_axis = 0}", {"float32[2, 3]", "int64[2] {0, 3}"}},
    {"Trilu(a)", {"float32[4, 5]"}},
    {"Trilu(a, b) {upper = 0}", {"float32[2, 4, 4]", "int64[] {-1}"}},
    {"Trilu(a, b)", {"float32[3, 3]", "int64[] {3}"}},
    {"Shape(a)", {"float32[2, 3, 4]"}},
    {"Shape(a) {start = 1, end = -1}", {"float32[2, 3, 4]"}},
    {"Size(a)", {"float32[2, 3, 4]"}},
    {"Range(a, b, c)", {"float32[] {1}", "float32[] {4.5}", "float32[] {0.75}"}},
    {"Range(a, b, c)", {"float32[] {1}", "float32[] {-2}", "float32[] {-0.1}"}},
    {"Range(a, b, c)", {"int64[] {3}", "int64[] {10}", "int64[] {3}"}},
    {"Range(a, b, c)", {"int32[] {10}", "int32[] {3}", "int32[] {-2}"}},
    {"Range(a, b, c)", {"int32[] {10}", "int32[] {3}", "int32[] {2}"}},
    {"EyeLike(a) {k = 1}", {"float32[3, 4]"}},
    {"Constant() {value = float32[2, 2] {1, 2, nan, inf}}", {}},
    {"Constant() {value_floats = [1.5, -2.0]}", {}},
    {"ConstantOfShape(a) {value = float32[1] {7}}", {"int64[2] {2, 3}"}},
    {"ConstantOfShape(a)", {"int64[1] {4}"}},
    {"ConstantFill(a) {value = 1.5, input_as_shape = 1}", {"int64[2] {2, 3}"}, 1, 8},
    {"NonZero(a)", {"float32[3, 4, 2]"}},
    {"NonZero(a)", {"float32[3]"}},
    {"Unique(a)", {"float32[6]"}, 4},
    {"Unique(a) {axis = 1, sorted = 0}", {"float32[2, 6]"}, 4},
    {"Compress(a, b) {axis = 1}", {"float32[2, 4]", "bool[4] {true, false, true, true}"}},
    {"Compress(a, b) {axis = 0}", {"float32[3, 2]", "bool[2] {false, true}"}},
    {"Compress(a, b)", {"float32[2, 4]", "bool[6] {true, false, true, true, false, true}"}},
    {"ArgMax(a) {axis = 1}", {"float32[3, 4]"}},
    {"ArgMin(a) {keepdims = 0}", {"float32[3, 4]"}},
    {"TopK(a, b)", {"float32[3, 4]", "int64[1] {2}"}, 2},
    {"TopK(a, b) {axis = 0}", {"float32[3, 4]", "int64[1] {1}"}, 2},
    {"TopK(a, b) {axis = 0, largest = 0}", {"float32[3, 4]", "int64[1] {1}"}, 1},
    {"CumSum(a, b)", {"float32[3, 4]", "int64[] {1}"}},
    {"CumSum(a, b) {exclusive = 1, reverse = 1}", {"float32[3, 4]", "int64[] {0}"}},
    {"CumSum(a, b)", {"int32[5] {1, 0, 1, 1, 1}", "int64[] {0}"}},
    {"CumProd(a, b)", {"float32[2, 3]", "int64[] {1}"}, 1, 26},
    {"CumProd(a, b) {exclusive = 1}", {"float32[2, 3]", "int64[] {0}"}, 1, 26},
};

// ---- one trial of a row -----------------------------------------------------------------------------------------

struct Operand {
  Tensor value = {};      // what eval sees
  AbsTensor range = {};   // what the rule sees
  std::string type = {};  // as the graph declares it
  bool constant = false;
  bool exact = false;
};

class Trial {
 public:
  Trial(const Row& row, std::uint64_t seed) : row_(row), rng_(seed) {
    for (const char* text : row.inputs) {
      const std::string input = text;
      operands_.push_back(input.find('{') == std::string::npos ? data(input) : parameter(parse_tensor(input)));
    }
    graph_ = parse_graph(graph_text(), "row");
    types_ = infer_types(graph_);
  }

  // The first contradiction in words, "" when there is none.
  std::string run() {
    apply_rule();
    Inputs inputs;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i].constant) inputs[name(i)] = operands_[i].value;
    }
    const std::vector<Datum> results = run_reference(graph_, inputs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string problem = contradiction(*results[i].tensor(), outs_[i]);
      if (!problem.empty()) return "output " + std::to_string(i) + ": " + problem + "\n" + print_graph(graph_);
    }
    return "";
  }

  int forms() const { return forms_; }

 private:
  static std::string name(std::size_t i) { return std::string(1, static_cast<char>('a' + i)); }

  // Elements of random cells; sizes may be hidden from the rule.
  Operand data(const std::string& type) {
    const Dims sizes = parse_tensor_type(type);
    AbsTensor range = ::finity::random_abstract(rng_, sizes);
    std::vector<bool> hidden(sizes.size());
    const std::uint64_t style = rng_.below(4);  // 0: some sizes hidden, 1: the rank hidden
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) hidden[axis] = style == 0 && rng_.below(2) == 0;
    if (style == 1) hidden.assign(sizes.size(), true);
    hide_cuts(range, hidden);
    if (rng_.below(3) == 0) {
      for (Range& cell : range.cells) cell = from_bounds(DType::float32, -1, 1);
    }
    Operand result;
    const Concrete concrete = world_.populate(range, rng_);
    result.value = from_elements<double>(DType::float32, sizes, concrete.values);
    result.type = "float32[";
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      result.type += (axis == 0 ? "" : ", ") + (hidden[axis] ? "?" : std::to_string(sizes[axis]));
      if (hidden[axis]) range.sizes[axis] = -1;
    }
    result.type += "]";
    if (style == 1) {
      result.type = "float32[...]";
      range.ranked = false;
      range.sizes.clear();
    }
    result.range = std::move(range);
    return result;
  }

  static Dims parse_tensor_type(const std::string& type) {
    Dims sizes;
    const std::string list = type.substr(type.find('[') + 1);
    for (std::size_t at = 0; list[at] != ']';) {
      std::size_t used = 0;
      sizes.push_back(std::stoll(list.substr(at), &used));
      at += used;
      if (list[at] == ',') ++at;
    }
    return sizes;
  }

  static void hide_cuts(AbsTensor& range, const std::vector<bool>& hidden) {
    if (range.cuts.empty()) return;
    std::vector<Cuts> cuts = range.cuts;
    for (std::size_t axis = 0; axis < hidden.size(); ++axis) {
      if (hidden[axis]) cuts[axis].clear();
    }
    std::size_t count = 1;
    for (const Cuts& inner : cuts) count *= inner.size() + 1;
    range.cuts = count > 1 ? cuts : std::vector<Cuts>{};
    range.cells.resize(count);
  }

  // Elements known to the rule, or only to the file, or only when the model runs.
  Operand parameter(Tensor tensor) {
    Operand result;
    const std::string text = print_tensor(tensor);
    result.type = text.substr(0, text.find('{') - 1);
    result.value = tensor;
    const std::uint64_t style = rng_.below(3);
    result.constant = style < 2;
    result.exact = style == 0;
    const auto shared = std::make_shared<const Tensor>(tensor);
    result.range = from_tensor(shared, 64);
    result.range.exact = result.exact ? shared : nullptr;
    if (style == 2) {
      const bool loose = rng_.below(2) == 0 && is_int(tensor.dtype());
      result.range = uniform(tensor.dtype(), tensor.dims(), loose ? any_finite(tensor.dtype()) : range_of(tensor));
    }
    return result;
  }

  std::string graph_text() const {
    std::string inputs, constants, outputs;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].constant) {
        const std::string text = print_tensor(operands_[i].value);
        constants += "  const " + name(i) + ": " + operands_[i].type + " = " + text.substr(text.find('{')) + "\n";
      } else {
        inputs += (inputs.empty() ? "" : ", ") + name(i) + ": " + operands_[i].type;
      }
    }
    for (int i = 0; i < row_.outputs; ++i) outputs += (i == 0 ? "y" : ", y") + std::to_string(i);
    return "opset " + std::to_string(row_.opset) + "\ngraph g (" + inputs + ") -> (" + outputs + ") {\n" + constants +
           "  " + outputs + " = " + row_.node + "\n}\n";
  }

  void apply_rule() {
    const Node& node = graph_.nodes()[0];
    std::vector<RangeCall::Operand> in;
    for (const ValueId input : node.inputs) {
      Operand& operand = operands_[static_cast<std::size_t>(graph_.value(input).name[0] - 'a')];
      operand.range.identity = input;
      in.push_back({.range = &operand.range,
                    .type = &types_[input],
                    .constant = graph_.value(input).constant,
                    .value = operand.range.exact.get()});
    }
    std::vector<const Type*> out_types;
    for (const ValueId out : node.outputs) out_types.push_back(&types_[out]);
    RangeSettings settings;
    constexpr std::size_t kCells[] = {1, 6, 64, 4096};
    settings.max_cells = kCells[rng_.below(std::size(kCells))];
    RangeCall call(call_of(graph_, node), in, out_types, settings, world_.symbols());
    ASSERT_NE(node.op->analysis.range, nullptr) << row_.node;
    node.op->analysis.range(call);
    outs_ = call.outs();
    for (std::size_t i = 0; i < outs_.size(); ++i) {
      ASSERT_TRUE(call.given()[i]) << row_.node;
      ASSERT_LE(outs_[i].cells.size(), std::max<std::size_t>(settings.max_cells, 24)) << row_.node;
    }
  }

  std::string contradiction(const Tensor& value, const AbsTensor& range) {
    if (range.dtype != value.dtype()) return "dtype";
    if (range.ranked && range.rank() != value.rank()) return "rank";
    for (std::size_t axis = 0; range.ranked && axis < value.rank(); ++axis) {
      if (range.sizes[axis] >= 0 && range.sizes[axis] != value.dim(axis)) return "size of axis " + std::to_string(axis);
    }
    const std::vector<double> values = elements<double>(value);
    std::string problem;
    std::size_t next = 0;
    for_each_index(value.dims(), [&](const Dims& index) {
      const double x = values[next++];
      Dims within = index;
      const std::size_t cell = range.ranked ? cell_of(range, index, &within) : 0;
      if (!range.cells[cell].contains(x)) {
        problem = std::to_string(x) + " at " + to_string(index) + " is outside " + to_string(range.cells[cell]);
      }
      const Form form = range.ranked ? cell_form(range, cell) : Form{};
      if (!form.valid) return;
      const std::optional<double> said = world_.value(form, within);
      if (!said) return;
      ++forms_;
      if (*said != x) problem = "the form says " + std::to_string(*said) + " for " + std::to_string(x);
    });
    return problem;
  }

  const Row& row_;
  Rng rng_;
  World world_;
  std::vector<Operand> operands_;
  Graph graph_;
  Types types_;
  std::vector<AbsTensor> outs_;
  int forms_ = 0;
};

TEST(MovementRanges, HoldElementsAndForms) {
  int forms = 0;
  for (const Row& row : kRows) {
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      SCOPED_TRACE(std::string(row.node) + " seed " + std::to_string(seed));
      try {
        Trial trial(row, seed);
        const std::string problem = trial.run();
        forms += trial.forms();
        ASSERT_EQ(problem, "");
      } catch (const Error& error) {
        FAIL() << error.what();
      }
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(forms, 100000);
}

}  // namespace
}  // namespace finity
