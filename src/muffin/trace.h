// What one library made of a model: every layer's output, the loss, the derivative of the loss by every layer's output
// and by every weight, and the weights after one step of the optimiser. Libraries that derive are asked for their own
// derivatives; the others run the backward pass that the op table's rules write.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/backend.h"
#include "muffin/model.h"

namespace finity::muffin {

struct Trace {
  // How it ended: `refused` before, `crashed` while the model ran; what a library does not implement is neither.
  enum class End : std::uint8_t { done, refused, crashed, unsupported };

  std::string backend = {};
  End end = End::done;
  std::string message = {};
  std::vector<Tensor> outputs = {};                   // by layer
  std::optional<double> loss = {};                    // none: was not reached
  std::vector<std::optional<Tensor>> gradients = {};  // by layer
  std::map<std::string, Tensor> weight_gradients = {};
  std::map<std::string, Tensor> weights = {};  // after a step
  bool native_step = false;                    // by the library's own optimiser, not by the formula
  std::string backward = {};                   // why there are no gradients

  bool ran() const { return end == End::done; }
};

// A model with what is computed of it once for all libraries.
class Prepared {
 public:
  explicit Prepared(const Model& model) : Prepared(model, true) {}

  const Model& model() const { return model_; }
  // Layers' outputs and the loss.
  const fuzz::Sample& forward() const { return forward_; }
  // A zero is added to every layer's output; its derivative is that of the output.
  const fuzz::Sample& probed() const { return probed_; }
  const std::vector<std::string>& probes() const { return probes_; }
  // For libraries that lack an op of it: the same with recurrent layers written step by step.
  const Prepared* unrolled() const { return unrolled_.get(); }
  // The backward pass as steps; nothing when the rules do not reach everything, and `why` says so.
  const std::optional<fuzz::Sample>& backward() const { return backward_; }
  const std::string& why() const { return why_; }
  // Names of the derivatives in backward(), by layer, and by weight; "" where nothing flows.
  const std::vector<std::string>& by_layer() const { return by_layer_; }
  const std::vector<std::string>& by_weight() const { return by_weight_; }

 private:
  Prepared(const Model& model, bool with_twin);
  void add_probes();
  void add_backward();

  const Model& model_;
  std::optional<Model> twin_;
  std::unique_ptr<const Prepared> unrolled_;
  fuzz::Sample forward_, probed_;
  std::optional<fuzz::Sample> backward_;
  std::vector<std::string> probes_, by_layer_, by_weight_;
  std::string why_;
};

Trace run_model(fuzz::Backend& backend, const Prepared& prepared, bool forward_only = false);

}  // namespace finity::muffin
