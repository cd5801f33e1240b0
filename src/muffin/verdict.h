// Muffin's oracle: libraries are compared layer by layer, in pairs, by the largest difference of two elements. A layer
// is inconsistent where two libraries differ by more than a threshold behind layers in which they agree. Who is to
// blame is voted on. There is no right answer here, only a majority.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muffin/trace.h"

namespace finity::muffin {

struct Rules {
  double threshold = 0.15;  // t
  double equal = 1e-5;      // epsilon
};

// Forward, loss and backward as in the paper; the step of the optimiser is ours.
enum class Phase : std::uint8_t { forward, loss, backward, step };
std::string_view name(Phase phase);

// The largest |x - y|; NaN when either has one, or when shapes differ.
double chebyshev(const Tensor& x, const Tensor& y);

// What two libraries say of one layer. NaN: nothing is known.
struct LayerDistance {
  int layer = 0;
  double output = 0, before = 0;   // of its output, and the largest of its operands
  double gradient = 0, after = 0;  // of the loss by its output, and the largest of the layers that use it
  int blamed = -1;                 // whose backward pass gave the gradient: the user that agrees in the forward pass
};

struct PairDistance {
  std::size_t a = 0, b = 0;  // traces
  std::vector<LayerDistance> layers = {};
  double output = 0, loss = 0, loss_gradient = 0;
  double weight_gradients = 0, weights = 0;  // the largest over all weights, before and after the optimiser's step
};

struct Inconsistency {
  Phase phase = Phase::forward;
  int layer = -1;         // -1: the loss or the optimiser
  std::string kind = {};  // of the layer, or of the loss, or the optimiser
  std::size_t a = 0, b = 0;
  double distance = 0;
};

struct Vote {
  Phase phase = Phase::forward;
  std::string kind = {};
  std::size_t trace = 0;
};

// A layer that gives NaN from operands without, in a library, while another gives numbers.
struct NanLayer {
  std::size_t trace = 0;
  std::string kind = {};
  int layer = -1;
};

// A library that does not do what another does.
struct Crash {
  std::size_t trace = 0;
  bool while_running = false;
  std::string message = {};
};

struct Verdict {
  std::vector<PairDistance> pairs = {};
  std::vector<Inconsistency> inconsistencies = {};
  std::vector<Vote> votes = {};
  std::vector<NanLayer> nans = {};
  std::vector<Crash> crashes = {};
};

PairDistance distances(const Model& model, const std::vector<Trace>& traces, std::size_t a, std::size_t b);
std::vector<Inconsistency> inconsistencies(const Model& model, const PairDistance& pair, const Rules& rules);
// A library is to blame for a layer when it is in strictly more of the inconsistent pairs than any other.
std::vector<Vote> votes(const std::vector<Inconsistency>& found, std::size_t traces);

Verdict judge_traces(const Model& model, const std::vector<Trace>& traces, const Rules& rules = {});

}  // namespace finity::muffin
