// One op on abstract operands: runs its range rule as the checker would, runs its
// eval on members of the operands, and says where a result leaves its range.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "domain/abs_tensor.h"
#include "ops/table/datum.h"
#include "ops/table/op.h"
#include "ops/table/range_call.h"

namespace finity {

struct ProbeOperand {
  std::optional<AbsTensor> range = {};  // none: omitted
  std::optional<Tensor> known = {};     // a constant; the range is made from it
  bool raw = false;                     // hand the constant over unloaded, as a large weight of a file is
};

ProbeOperand omitted();
ProbeOperand constant(Tensor tensor, bool raw = false);
ProbeOperand abstract(AbsTensor range);

struct RangeProbe {
  std::string domain = {};
  std::string op = {};
  int version = 24;
  Attrs attrs = {};
  std::vector<ProbeOperand> operands = {};
  std::size_t outputs = 1;
  RangeSettings settings = {};

  // Filled by run().
  std::vector<AbsTensor> ranges = {};
  std::vector<Site> sites = {};
  std::vector<Type> types = {};

  // Throws Error when the op refuses its operands.
  void run();
  bool alarms(std::string_view rule) const;  // a possible site of that rule, or of the result's overflow and invalid
  bool judged(std::string_view rule) const;  // any site of that rule
  // Results for these elements; constants are filled in where an element is absent.
  std::vector<Tensor> evaluate(const std::vector<Datum>& inputs) const;
};

// A random grid with random ranges inside [lo, hi]; now and then a point, or one that touches an end.
AbsTensor random_abstract(Rng& rng, DType dtype, const Dims& dims, double lo, double hi, std::size_t max_cells = 8);
// A member: elements at either end, in between, or special where the range allows it.
Tensor random_member(Rng& rng, const AbsTensor& range, const Dims& dims);
// Random elements of a dtype in [lo, hi].
Tensor random_tensor(Rng& rng, DType dtype, const Dims& dims, double lo, double hi);

// The cell of an element of a tensor of these dims.
const Range& range_at(const AbsTensor& x, const Dims& dims, std::int64_t element);
// Why the tensor is not a member; empty when it is.
std::string leaves(const Tensor& tensor, const AbsTensor& range);

// The same numbers in every run, others with FINITY_TEST_SEED=N in the environment.
Rng seeded(std::uint64_t number);

// ---- drawing whole calls -----------------------------------------------------------
std::int64_t small(Rng& rng, std::int64_t most);  // 1 .. most
DType any_float(Rng& rng);                        // one of the four usual ones
RangeSettings any_settings(Rng& rng);             // any number of cells
// A constant (loaded or not), or a random range.
ProbeOperand any_operand(Rng& rng, DType dtype, const Dims& dims, double lo, double hi, bool known);
// Lets some cells of float operands be NaN or infinite.
void add_specials(Rng& rng, RangeProbe& probe);
// Op, operand types (constants with !) and attributes, for messages.
std::string describe(const RangeProbe& probe);
std::vector<Datum> random_members(Rng& rng, const RangeProbe& probe);
// Runs the rule, then eval on so many members; says which result left its range.
std::string unsound(Rng& rng, RangeProbe& probe, int tries);

}  // namespace finity
