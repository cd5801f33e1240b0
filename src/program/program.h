// A training program: a graph with a loss, and everything that happens around it when a network is trained. Where the
// inputs come from and what they may be, how weights start, what updates them, and what is looked at for NaN and Inf
// after every step. It is read from a description in TOML beside the model (read_program.h), or built in code: the
// members are plain data, and `settle` fills in what follows from the rest and refuses what contradicts itself.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tensor/tensor.h"
#include "types/infer.h"

namespace finity {

// Random numbers, one kind for noise inputs and for weights at the start.
struct Draw {
  enum class Kind : std::uint8_t {
    zeros,
    constant,          // a
    uniform,           // in [a, b)
    normal,            // mean a, deviation b
    truncated_normal,  // mean a, deviation b, drawn again beyond two deviations
    bernoulli,         // 1 with probability a
    integers,          // whole numbers in [a, b)
    one_hot,           // rows (along the last axis) with a single 1, the rest 0
    xavier_uniform,    // by the sizes of a matrix or kernel: +-sqrt(6 / (in + out))
    linear_default     // +-1 / sqrt(in), PyTorch's; `fan_in` where the tensor itself does not tell (a bias)
  };

  Kind kind = Kind::zeros;
  double a = 0;
  double b = 0;
  std::int64_t fan_in = 0;
};

struct LegalRange {
  double lo = -std::numeric_limits<double>::infinity();  // infinite: any finite number of the input's format
  double hi = std::numeric_limits<double>::infinity();

  bool bounded() const {
    return lo > -std::numeric_limits<double>::infinity() || hi < std::numeric_limits<double>::infinity();
  }
};

// A graph input that data or random numbers are fed into.
struct ProgramInput {
  std::string name = {};
  // Samples along the first axis where the graph's input has the batch there, else the value itself; in the input's
  // format, after preprocessing. No elements: drawn.
  Tensor data = {};
  std::optional<Draw> draw = {};
  bool each_step = true;                 // of a draw: new numbers for every step, else once at the start
  std::optional<LegalRange> range = {};  // default: smallest and largest number of the data; of a draw: its own range
  std::optional<bool> change = {};       // may a search choose it? default: floats yes, unless `label`
  bool label = false;                    // goes with the sample it belongs to: rows are exchanged, never changed
  // Filled in by settle().
  ValueId id = {};
  bool batched = false;  // the first axis is the batch
};

// A graph input, or an initializer of the graph, that training changes.
struct ProgramWeight {
  std::string name = {};
  std::optional<Draw> init = {};         // default for initializers: their values
  Tensor start = {};                     // or these numbers
  std::optional<LegalRange> range = {};  // given: a search may choose where the weight starts
  // How large training is taken to make it: proofs hold for weights in [-reach, reach]. Infinite: of any size.
  double reach = std::numeric_limits<double>::infinity();
  bool train = true;
  std::string loss = {};    // trained on another loss than the program's (the generator's in a GAN)
  std::string update = {};  // a value of the graph that is the weight after the step, for hand-written updates
  // Filled in by settle().
  ValueId id = {};
};

struct Optimiser {
  enum class Kind : std::uint8_t {
    sgd,
    momentum,
    nesterov,
    adagrad,
    adadelta,
    rmsprop,
    adam,
    adamw,
    adamax,
    nadam,
    ftrl
  };

  Kind kind = Kind::sgd;
  double rate = 0.01;
  double momentum = 0;  // momentum and nesterov: 0.9 when not given; rmsprop: 0
  double decay = 0.9;   // of squares: rmsprop, adadelta
  double epsilon = 1e-8;
  double beta1 = 0.9;
  double beta2 = 0.999;
  bool centred = false;         // rmsprop
  bool amsgrad = false;         // adam, adamw
  bool epsilon_inside = false;  // rmsprop as TensorFlow 1 has it: the root of (squares + epsilon)
  double accumulator = 0.1;     // adagrad's and ftrl's start
  double l1 = 0, l2 = 0;        // ftrl: what keeps weights at 0, and small
  double shrinkage = 0;         // ftrl: as l2, but part of the gradient
  double power = 0.5;           // ftrl: of the sum of squares, by which the rate falls
  double weight_decay = 0;
  double rate_decay = 1;              // the rate is multiplied by this ...
  std::int64_t rate_decay_steps = 1;  // ... every so many steps
};

struct Program {
  std::string name = {};  // for messages: the description's path
  std::shared_ptr<const Graph> graph = {};
  std::int64_t batch = 1;
  std::string loss = {};                // a value with one element; "": the only float output
  std::vector<std::string> watch = {};  // looked at for NaN and Inf after every step; empty: the loss
  bool flush_subnormals = false;
  bool shuffle = true;  // samples in another order in every epoch
  std::vector<ProgramInput> inputs = {};
  std::vector<ProgramWeight> weights = {};
  Optimiser optimiser = {};
  // Filled in by settle(): types with the batch size put in.
  Types types = {};
  ValueId loss_id = {};
  std::vector<ValueId> watch_ids = {};
};

// Finds the names in the graph, puts the batch size in, and fills in defaults. A symbol or unknown size on the first
// axis of an input with data is the batch; so is a size that equals `batch`. Throws Error naming what is wrong: an
// input that is described twice or not at all, data of the wrong shape, a loss with several elements.
void settle(Program& program);

std::string_view name(Optimiser::Kind kind);
std::optional<Optimiser::Kind> optimiser_named(std::string_view name);

}  // namespace finity
