// Ops of point clouds (PointNet++ and its many copies): custom ops, but the same everywhere.
#include <algorithm>
#include <limits>

#include "formats/tensorflow/emit.h"

namespace finity::tensorflow {

namespace {

// Rows [batch, count, channels] by indices [batch, ...].
ValueId chosen(Emit& emit, ValueId rows, ValueId indices) {
  return emit.add("GatherND", {rows, emit.unsqueeze(emit.int64(indices), {-1})}, {{"batch_dims", 1}});
}

// (points, idx)
void lower_gather_points(TfCall& call) {
  Emit emit(call);
  call.give(chosen(emit, call.in(0), call.in(1)));
}

// Squared distances of each of a [batch, n, 3] to each of b [batch, m, 3]: [batch, n, m].
ValueId squared_distances(Emit& emit, ValueId a, ValueId b) {
  const ValueId difference = emit.difference(emit.unsqueeze(a, {2}), emit.unsqueeze(b, {1}));
  return emit.reduce("ReduceSum", emit.product(difference, difference), {-1}, false);
}

// (xyz1, xyz2): the three nearest of the second for each of the first, as squared distances and positions. Where there
// are fewer, the kernel leaves 1e40, which is infinite as a float, and position 0.
void lower_three_nearest(TfCall& call) {
  Emit emit(call);
  ValueId distances = squared_distances(emit, call.in(0), call.in(1));
  const std::int64_t count = emit.size(distances, 2);
  const std::int64_t missing = count < 0 ? 2 : std::max<std::int64_t>(3 - count, 0);
  const auto padded = [&](ValueId x, double filler) {
    const ValueId rows = emit.shape_part(x, 0, 2);
    return emit.concat({x, emit.filled(emit.concat({rows, emit.ints({missing})}, 0), filler, emit.dtype(x))}, -1);
  };
  if (missing > 0) distances = padded(distances, std::numeric_limits<double>::infinity());
  // Of one point the order is known.
  std::vector<ValueId> nearest = {distances, {}};
  if (count != 1) nearest = call.add_all("TopK", {distances, emit.ints({3})}, 2, {{"axis", -1}, {"largest", 0}});
  call.give(0, nearest[0]);
  if (count == 1) return call.give(1, emit.filled(emit.shape(distances), 0, DType::int32));
  ValueId places = nearest[1];
  if (missing > 0) {
    places = emit.where(emit.add("Less", {places, emit.dim(call.in(1), 1)}), places, emit.whole(0));
  }
  call.give(1, emit.cast(places, DType::int32));
}

// (points, idx, weight): sums of three weighted rows.
void lower_three_interpolate(TfCall& call) {
  Emit emit(call);
  const ValueId weighted = emit.product(chosen(emit, call.in(0), call.in(1)), emit.unsqueeze(call.in(2), {-1}));
  call.give(emit.reduce("ReduceSum", weighted, {2}, false));
}

// (xyz1, xyz2): for each of the second the first `nsample` of the first within the radius; the first one is repeated
// when there are fewer, and the count is given besides.
void lower_query_ball(TfCall& call) {
  Emit emit(call);
  const double radius = call.real("radius", 0);
  const std::int64_t wanted = call.integer("nsample");
  const ValueId distances = squared_distances(emit, call.in(1), call.in(0));
  const ValueId inside = emit.add("Less", {distances, emit.number_like(radius * radius, distances)});
  const ValueId count = emit.dim(call.in(0), 1), positions = emit.positions(count);
  const ValueId keys = emit.where(inside, positions, count);
  const std::vector<ValueId> first =
      call.add_all("TopK", {keys, emit.ints({wanted})}, 2, {{"axis", -1}, {"largest", 0}});
  const ValueId fallback = emit.add("Mod", {emit.slice(first[0], -1, 0, 1), emit.add("Max", {count, emit.whole(1)})});
  call.give(0, emit.cast(emit.where(emit.add("Less", {first[0], count}), first[0], fallback), DType::int32));
  const ValueId all = emit.reduce("ReduceSum", emit.cast(inside, DType::int64), {-1}, false);
  call.give(1, emit.cast(emit.add("Min", {all, emit.whole(wanted)}), DType::int32));
}

// Positions that a search finds one after the other: any.
void lower_farthest_points(TfCall& call) {
  Shape shape = {Dim{}, Dim::of(call.integer("npoint"))};
  const Type& points = call.in_type(0);
  if (points.ranked && !points.shape.empty()) shape[0] = points.shape[0];
  call.give(call.outside(0, Type::tensor(DType::int32, shape)));
}

constexpr Lowering kPoints[] = {
    {.op = "FarthestPointSample", .lower = lower_farthest_points},
    {.op = "GatherPoint", .lower = lower_gather_points},
    {.op = "GroupPoint", .lower = lower_gather_points},
    {.op = "QueryBallPoint", .lower = lower_query_ball},
    {.op = "ThreeInterpolate", .lower = lower_three_interpolate},
    {.op = "ThreeNN", .lower = lower_three_nearest},
};

}  // namespace

std::span<const Lowering> point_lowerings() { return kPoints; }

}  // namespace finity::tensorflow
