// A library that computes like the reference, with a fault of its argument's choice:
//   none       as it should be
//   pool       MaxPool after Pad is one too large, when optimised
//   relu       Relu gives zeros for everything
//   shape      Flatten gives another shape
//   crash      Selu ends the process
//   unstable   Tanh differs from run to run
//   refuses    Clip is refused, when optimised
//   words      Clip is refused, when optimised, in other words for one bound than for two
//   old        reads operator sets up to 15
//   identity   Relu behind an Identity gives zeros
//   two        Softmax is one too large; where an element is above 2 it is infinite
//   nan        Erf of NaN is 1
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "exec/reference.h"
#include "exec/serve.h"
#include "formats/onnx/onnx.h"
#include "tensor/convert.h"

namespace finity {
namespace {

class Faulty final : public Engine {
 public:
  explicit Faulty(std::string fault) : fault_(std::move(fault)) {}

  Hello hello() const override { return {.engine = "faulty", .version = "1"}; }

  void load(std::string_view model, Optimisation level) override {
    const auto bytes = std::make_shared<const std::string>(model);
    std::vector<Note> notes;
    const auto* begin = reinterpret_cast<const std::byte*>(bytes->data());
    graph_ = read_onnx({.bytes = {begin, bytes->size()}, .owner = bytes, .name = "model"}, notes);
    optimised_ = level != Optimisation::none;
    if (fault_ == "old" && graph_.info().opsets.at("") > 15) throw Error("newer than 15");
    for (const Node& node : graph_.nodes()) {
      if (fault_ == "crash" && node.op_type == "Selu") std::abort();
      if (fault_ == "refuses" && optimised_ && node.op_type == "Clip") throw Error("no Clip today");
      if (fault_ == "words" && optimised_ && node.op_type == "Clip")
        throw Error(node.inputs.size() == 2 ? "Clip 17: one bound" : "Clip 4: bounds {1, 2, 3}");
    }
  }

  NamedData run(const RunRequest& request, const std::function<void(Stage)>&) override {
    Inputs inputs;
    for (const auto& [name, datum] : request.inputs) inputs[name] = datum;
    std::vector<Datum> outputs = run_reference(graph_, inputs);
    ++runs_;
    operands_.clear();
    for (const auto& [name, datum] : request.inputs) {
      if (datum.tensor() == nullptr || !is_float(datum.tensor()->dtype())) continue;
      for (const double x : finity::elements<double>(*datum.tensor())) operands_.push_back(x);
    }
    NamedData result;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Value& value = graph_.value(graph_.main().outputs[i]);
      result.emplace_back(value.name, spoilt(value, outputs[i]));
    }
    return result;
  }

 private:
  bool made_by(const Value& value, std::string_view op) const {
    return value.producer.valid() && graph_.node(value.producer).op_type == op;
  }

  Datum spoilt(const Value& value, const Datum& datum) const {
    if (datum.tensor() == nullptr || datum.tensor()->dtype() == DType::string) return datum;
    const Tensor& tensor = *datum.tensor();
    std::vector<double> elements = finity::elements<double>(tensor);
    if (fault_ == "pool" && optimised_ && made_by(value, "MaxPool") && after(value, "Pad")) {
      for (double& x : elements) x += 1;
    } else if (fault_ == "relu" && made_by(value, "Relu")) {
      for (double& x : elements) x = 0;
    } else if (fault_ == "identity" && made_by(value, "Relu") && after(value, "Identity")) {
      for (double& x : elements) x = 0;
    } else if (fault_ == "unstable" && made_by(value, "Tanh") && tensor.dtype() == DType::float32) {
      for (double& x : elements) x *= 1 + 0x1p-23 * (runs_ % 2);  // one bit, now and then
    } else if (fault_ == "two" && made_by(value, "Softmax")) {
      const bool large = std::ranges::any_of(operands_, [](double x) { return x > 2; });
      for (double& x : elements) x = large ? HUGE_VAL : x + 1;
    } else if (fault_ == "nan" && made_by(value, "Erf")) {
      for (double& x : elements) x = std::isnan(x) ? 1 : x;
    } else if (fault_ == "shape" && made_by(value, "Flatten")) {
      return tensor.reshaped({tensor.size()});
    } else {
      return datum;
    }
    return from_elements<double>(tensor.dtype(), tensor.dims(), elements);
  }

  bool after(const Value& value, std::string_view op) const {
    const ValueId input = graph_.node(value.producer).inputs.front();
    return made_by(graph_.value(input), op);
  }

  std::string fault_;
  Graph graph_;
  bool optimised_ = false;
  int runs_ = 0;
  std::vector<double> operands_;
};

}  // namespace
}  // namespace finity

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "none";
  return finity::serve([&] { return std::make_unique<finity::Faulty>(fault); });
}
