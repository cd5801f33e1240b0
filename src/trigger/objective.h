// How far an input is from making a finding come true, and which way to go: the suspect loss. Of a hazard with unsafe
// values it is the distance of the nearest element to them; of a result that may overflow, how far the logarithm of its
// largest magnitude is from the format's limit. Both are computed in double on the widened model, so that differences
// which the real format rounds away still show a direction. Whether the finding really comes true is never decided
// here, but by running the model itself.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "check/check_graph.h"
#include "check/verify.h"
#include "exec/worker.h"
#include "gradient/gradient.h"

namespace finity {

// A model with the sizes that one input has. Node and value ids are those of the model.
struct SizedModel {
  Graph graph = {};
  Types types = {};
};
// As it is, and in double; the latter as it is too when it cannot be converted.
struct SizedModels {
  SizedModel plain = {};
  SizedModel wide = {};
  Bindings sizes = {};
};
SizedModels with_sizes(const CheckedGraph& model, const Drawn& sizes);

struct Evaluation {
  double distance = 0;    // at most 0 where the finding is expected to come true
  Numbers gradient = {};  // of the distance, by input and weight; finite
};

class Objective {
 public:
  // How many quantities the finding's rule speaks of at its node; at least 1.
  static std::size_t variants(const CheckedGraph& model, std::size_t finding);
  // Nothing when the finding has no quantity to walk along, or it does not depend on what may vary. Where a rule speaks
  // of several quantities (a negative base, a base of zero), `variant` chooses among them.
  static std::optional<Objective> make(const CheckedGraph& model, const SizedModels& sized, std::size_t finding,
                                       const std::vector<ValueId>& variables, std::size_t variant);

  // By LibTorch when `torch` is given and can do it, else by the reference. Throws Error when the model cannot be run
  // on this.
  Evaluation evaluate(const Drawn& drawn, std::uint64_t seed, Worker* torch);

  // LibTorch computed the last one.
  bool was_in_torch() const { return !forward_.empty() && !torch_refused_; }

  // What a distance means: "0.25 away from <= 0", "at most 1e+20 of 3.4028235e+38".
  std::string describe(double distance) const;
  // Steps of distance / slope make sense: the distance is that of a number, not of a logarithm.
  bool is_plain() const { return !overflow_; }
  // Nodes through which no gradient could be followed.
  const std::vector<GradientStop>& stops() const { return stops_; }

 private:
  Objective() = default;
  static Objective finished(GraphWriter&& writer, Objective objective);
  static std::optional<Objective> make_in_body(const CheckedGraph& model, const SizedModels& sized, const Finding& site,
                                               const Hazard* hazard, const std::vector<ValueId>& variables);
  ValueId add_hazard(GraphWriter& writer, ValueId quantity, const Hazard& hazard, DType dtype);
  ValueId add_overflow(GraphWriter& writer, const Node& node, const Finding& site, DType dtype);
  std::optional<Evaluation> evaluate_in_torch(const Inputs& inputs, const std::unordered_map<ValueId, Datum>& weights,
                                              Worker& torch);
  bool add_gradients(GraphWriter& writer, ValueId distance, const std::vector<ValueId>& variables);

  Graph graph_ = {};
  std::vector<ValueId> variables_ = {};  // whose gradients are outputs 1, 2, ... of the graph
  std::string forward_ = {};             // the graph without gradients as an ONNX file, written when LibTorch is asked
  bool torch_refused_ = false;
  std::vector<DType> dtypes_ = {};  // by ValueId
  bool overflow_ = false;
  double limit_ = 0;         // of an overflow
  std::string unsafe_ = {};  // "<= 0"
  std::vector<GradientStop> stops_ = {};
};

}  // namespace finity
