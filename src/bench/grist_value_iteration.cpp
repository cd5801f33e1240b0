// Number 15: a network that iterates values on a grid world (ten convolutions with the same kernel) and reads from the
// result which way to go.
#include <algorithm>

#include "base/rng.h"
#include "bench/grist.h"
#include "bench/maker.h"

namespace finity {

namespace {

constexpr std::int64_t kSide = 8, kStates = 10, kMaps = 120, kActions = 8;

struct Worlds {
  Tensor maps = Tensor(DType::float32, {kMaps, 2, kSide, kSide});  // free cells 1, and the goal 10
  Tensor rows = Tensor(DType::int64, {kMaps, kStates});
  Tensor columns = Tensor(DType::int64, {kMaps, kStates});
  Tensor actions = Tensor(DType::int64, {kMaps, kStates});
};

// One of eight directions, from the signs of the differences.
std::int64_t towards(std::int64_t rows, std::int64_t columns) {
  const std::int64_t down = std::clamp<std::int64_t>(rows, -1, 1), right = std::clamp<std::int64_t>(columns, -1, 1);
  const std::int64_t of_nine = (down + 1) * 3 + right + 1;
  return of_nine > 4 ? of_nine - 1 : std::min<std::int64_t>(of_nine, kActions - 1);
}

// Maps with a wall around them and a fifth of the cells blocked; the way leads straight to the goal.
Worlds worlds() {
  Worlds made;
  Rng rng(15);
  const auto inside = [&] { return 1 + static_cast<std::int64_t>(rng.below(kSide - 2)); };
  const std::span<float> maps = made.maps.mutable_data<float>();
  for (std::int64_t map = 0; map < kMaps; ++map) {
    float* const cells = maps.data() + map * 2 * kSide * kSide;
    for (std::int64_t cell = 0; cell < kSide * kSide; ++cell) {
      const std::int64_t row = cell / kSide, column = cell % kSide;
      const bool wall = row == 0 || column == 0 || row == kSide - 1 || column == kSide - 1;
      cells[cell] = wall || rng.uniform() < 0.2 ? 0 : 1;
    }
    const std::int64_t goal_row = inside(), goal_column = inside();
    cells[kSide * kSide + goal_row * kSide + goal_column] = 10;
    for (std::int64_t state = 0; state < kStates; ++state) {
      const auto at = static_cast<std::size_t>(map * kStates + state);
      const std::int64_t row = inside(), column = inside();
      made.rows.mutable_data<std::int64_t>()[at] = row;
      made.columns.mutable_data<std::int64_t>()[at] = column;
      made.actions.mutable_data<std::int64_t>()[at] = towards(goal_row - row, goal_column - column);
    }
  }
  return made;
}

// Values of all actions in all cells, after ten rounds.
std::string iterated(Maker& maker, const std::string& maps) {
  constexpr int kRounds = 9;
  const Draw begins = begin::normal(0.01);
  const std::string h = maker.conv(maps, {150, 2, 3, 3}, true, "see", {begins, begins});
  const std::string reward = maker.conv(h, {1, 150, 1, 1}, true, "reward", {begins, {}});
  std::string q = maker.conv(reward, {10, 1, 3, 3}, true, "act", {begins, {}});
  const std::string back = maker.weight("back_w", {10, 1, 3, 3}, begins);
  const std::string kernel = maker.node("Concat", {"act_w", back}, "axis = 1");
  for (int round = 0; round <= kRounds; ++round) {
    const std::string value = maker.node("ReduceMax", {q, maker.whole_numbers({1})}, "keepdims = 1");
    const std::string both = maker.node("Concat", {reward, value}, "axis = 1");
    q = maker.node("Conv", {both, kernel}, "auto_pad = \"SAME_UPPER\", strides = [1, 1]");
  }
  return q;
}

Recipe value_iteration(const Build& build) {
  const Worlds data = worlds();
  Maker maker(build.small ? 2 : 12);
  const std::int64_t batch = maker.batch(), all = batch * kStates;
  const std::string maps = maker.table("x", data.maps, {0, 10}, true);
  const std::string rows = maker.table("rows", data.rows, {1, 6}, false);
  const std::string columns = maker.table("columns", data.columns, {1, 6}, false);
  const std::string y = maker.table("y", data.actions, {0, kActions - 1}, false);
  const std::string q = maker.node("Transpose", {iterated(maker, maps)}, "perm = [0, 2, 3, 1]");
  const auto apart = [&](const std::string& x) { return maker.reshape(x, {batch, kStates, 1}); };
  const std::string where = maker.node("Concat", {apart(rows), apart(columns)}, "axis = 2");
  const std::string seen = maker.reshape(maker.node("GatherND", {q, where}, "batch_dims = 1"), {all, 10});
  const std::string logits = maker.dense(seen, 10, kActions, "choose", {begin::normal(0.01), {}});
  const std::string p = maker.node("Softmax", {logits}, "axis = 1");
  const std::string log = maker.node("Log", {build.repaired ? maker.clip(p, 1e-10, 1) : p}, "", "log");
  const std::string right = maker.node("GatherElements", {log, maker.reshape(y, {all, 1})}, "axis = 1");
  maker.loss(maker.node("Neg", {maker.mean(right)}));
  maker.optimiser(
      {.kind = Optimiser::Kind::rmsprop, .rate = 0.001, .epsilon = 1e-6, .centred = true, .epsilon_inside = true});
  return std::move(maker).finish();
}

}  // namespace

GristBugs grist_value_iteration() {
  return {{.id = "15",
           .family = "value iteration",
           .op = "log",
           .rule = "FN102",
           .nodes = {"log"},
           .repaired = {"log"},
           .note = "drawn grid worlds instead of the published ones",
           .make = value_iteration}};
}

}  // namespace finity
