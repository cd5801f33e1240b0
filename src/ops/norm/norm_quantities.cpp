// Quantities of normalisations (quantities.h): variance plus epsilon must be positive, the sums behind it must fit.
#include "base/error.h"
#include "ops/norm/microsoft_norm.h"
#include "ops/norm/norm_attrs.h"
#include "ops/norm/norm_stages.h"
#include "ops/shared/accumulate.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

// The rows that an op normalises, and how.
struct NormRows {
  ValueId rows = {};
  std::vector<std::int64_t> axes = {};  // within a row
  DType stash = DType::float32;         // variances are computed in it
  Centre centre = Centre::mean;
  double epsilon = 0;
};
using RowsOf = NormRows (*)(BuildCall&);

// Rows along no axis have one element each.
ValueId over_rows(BuildCall& call, std::string_view op, ValueId x, const NormRows& of) {
  return of.axes.empty() ? x : reduced(call, op, x, of.axes);
}

ValueId mean(BuildCall& call, ValueId x, const NormRows& of) { return over_rows(call, "ReduceMean", x, of); }
ValueId square(BuildCall& call, ValueId x) { return call.product(x, x); }

ValueId distances(BuildCall& call, const NormRows& of, DType format) {
  const ValueId x = call.cast(of.rows, format);
  return of.centre == Centre::mean ? call.difference(x, mean(call, x, of)) : x;
}

ValueId plus_epsilon(BuildCall& call, ValueId variance, const NormRows& of) {
  return of.epsilon == 0 ? variance : call.sum(variance, call.scalar(of.epsilon, of.stash));
}

template <RowsOf Rows>
ValueId variance(BuildCall& call) {
  const NormRows of = Rows(call);
  if (!of.rows.valid()) return harmless(call);
  return plus_epsilon(call, mean(call, square(call, distances(call, of, of.stash)), of), of);
}

// As libraries compute it in one pass: the mean of squares less the square of the mean, which may come out negative.
template <RowsOf Rows>
ValueId one_pass_variance(BuildCall& call) {
  const NormRows of = Rows(call);
  const ValueId x = call.cast(of.rows, of.stash);
  const ValueId difference = call.difference(mean(call, square(call, x), of), square(call, mean(call, x, of)));
  return plus_epsilon(call, difference, of);
}

// Over the largest number of the format they are added in.
ValueId share_of_sum(BuildCall& call, const NormRows& of, ValueId terms) {
  return divided(call, over_rows(call, "ReduceSum", terms, of), overflow_limit(of.stash));
}

template <RowsOf Rows>
ValueId share_of_squares(BuildCall& call) {
  const NormRows of = Rows(call);
  if (!of.rows.valid()) return harmless(call);
  return share_of_sum(call, of, square(call, distances(call, of, DType::float64)));
}

template <RowsOf Rows>
ValueId share_of_elements(BuildCall& call) {
  const NormRows of = Rows(call);
  if (!of.rows.valid()) return harmless(call);
  return share_of_sum(call, of, in_float64(call, of.rows));
}

// Entries that are the same for every normalisation; the element sum only where a mean is subtracted.
template <RowsOf Rows>
constexpr Hazard kVariance = {.rule = "FN304", .operand = 0, .unsafe = unsafe_not_positive, .quantity = variance<Rows>};
template <RowsOf Rows>
constexpr Hazard kOnePass = {
    .rule = "FN305", .operand = 0, .unsafe = unsafe_negative, .quantity = one_pass_variance<Rows>};
template <RowsOf Rows>
constexpr Hazard kSquares = {.rule = "FN205", .operand = 0, .unsafe = unsafe_share, .quantity = share_of_squares<Rows>};
template <RowsOf Rows>
constexpr Hazard kElements = {
    .rule = "FN205", .operand = 0, .unsafe = unsafe_share, .quantity = share_of_elements<Rows>};

// ---- LayerNormalization, RMSNormalization, GroupNormalization -----------------------------

template <Centre C>
NormRows layer_rows(BuildCall& call) {
  const std::size_t rank = call.rank(call.in(0));
  return {call.in(0), axes_from(axis_of(call.integer("axis"), rank), rank), stash_type(call), C, call.real("epsilon")};
}

NormRows group_rows(BuildCall& call) {
  const ValueId groups = reshaped(call, call.in(0), {0, call.integer("num_groups"), -1});
  const DType stash = call.version() < 21 ? sum_format(call.in_type(0).dtype) : stash_type(call);
  return {groups, {2}, stash, Centre::mean, call.real("epsilon")};
}

constexpr RowsOf kLayer = layer_rows<Centre::mean>;
constexpr RowsOf kRms = layer_rows<Centre::zero>;
constexpr Hazard kLayerNorm[] = {kVariance<kLayer>, kSquares<kLayer>, kElements<kLayer>, kOnePass<kLayer>};
constexpr Hazard kRmsNorm[] = {kVariance<kRms>, kSquares<kRms>};
constexpr Hazard kGroupNorm[] = {kVariance<group_rows>, kSquares<group_rows>, kElements<group_rows>,
                                 kOnePass<group_rows>};

// ---- BatchNormalization ---------------------------------------------------------------------

DType batch_format(const BuildCall& call) {
  for (std::size_t i = 0; i < 5; ++i) {
    if (call.in_type(i).dtype == DType::float64) return DType::float64;
  }
  return DType::float32;
}

// In training the moments are the batch's own; without, there are no rows.
NormRows batch_rows(BuildCall& call) {
  if (!batch_trains(call)) return {};
  const std::size_t rank = call.rank(call.in(0));
  std::vector<std::int64_t> axes = axes_from(0, rank);
  if (!batch_is_spatial(call)) axes = {0};
  else if (rank > 1) axes.erase(axes.begin() + 1);
  return {call.in(0), std::move(axes), batch_format(call), Centre::mean, call.real("epsilon")};
}

ValueId given_variance(BuildCall& call) {
  if (batch_trains(call)) return harmless(call);
  const DType format = batch_format(call);
  return call.sum(call.cast(call.in(4), format), call.scalar(call.real("epsilon"), format));
}

// Elements of the batch; at least one where there is no channel either.
ValueId batch_elements(BuildCall& call) {
  if (!batch_trains(call)) return harmless(call);
  const ValueId one = call.scalar(1, DType::int64);
  const ValueId no_channel = call.difference(one, call.add("Size", {call.in(1)}));
  return call.add("Max", {call.add("Size", {call.in(0)}), no_channel});
}

constexpr Hazard kBatchNorm[] = {{.rule = "FN304", .operand = 4, .unsafe = unsafe_zero, .quantity = given_variance},
                                 {.rule = "FN305", .operand = 4, .unsafe = unsafe_negative, .quantity = given_variance},
                                 {.rule = "FN306", .operand = 0, .unsafe = unsafe_zero, .quantity = batch_elements},
                                 kVariance<batch_rows>,
                                 kSquares<batch_rows>,
                                 kElements<batch_rows>};

// ---- InstanceNormalization, MeanVarianceNormalization ----------------------------------------

NormRows instance_rows(BuildCall& call) {
  return {call.in(0), axes_from(2, call.rank(call.in(0))), sum_format(call.dtype()), Centre::mean,
          call.real("epsilon")};
}

// ONNX adds 1e-9 to the root; there are libraries that add nothing, so that the variance itself must not be zero.
NormRows mean_variance_rows(BuildCall& call) {
  return {call.in(0), moment_axes(call), sum_format(call.dtype()), Centre::mean, 0};
}

constexpr Hazard kInstanceNorm[] = {kVariance<instance_rows>, kSquares<instance_rows>, kElements<instance_rows>};
constexpr Hazard kMeanVarianceNorm[] = {kVariance<mean_variance_rows>, kSquares<mean_variance_rows>,
                                        kElements<mean_variance_rows>, kOnePass<mean_variance_rows>};

// ---- LpNormalization, LRN ------------------------------------------------------------------------

ValueId share_of_powers(BuildCall& call) {
  const ValueId x = in_float64(call, call.in(0));
  const ValueId powers = call.integer("p") == 1 ? call.add("Abs", {x}) : square(call, x);
  const ValueId sum = reduced(call, "ReduceSum", powers, {call.integer("axis")});
  return divided(call, sum, overflow_limit(sum_format(call.dtype())));
}

// Sums of squares over neighbouring channels, as a pool along them.
ValueId share_of_neighbours(BuildCall& call) {
  const std::int64_t size = call.integer("size");
  const ValueId squares = square(call, in_float64(call, call.in(0)));
  const ValueId rows = reshaped(call, call.add("Unsqueeze", {squares, call.ints({1})}), {0, 0, 0, -1});
  Attrs attrs;
  attrs.set("kernel_shape", std::vector<std::int64_t>{size, 1});
  attrs.set("pads", std::vector<std::int64_t>{(size - 1) / 2, 0, size - 1 - (size - 1) / 2, 0});
  attrs.set("count_include_pad", std::int64_t{1});
  const ValueId means = call.add("AveragePool", {rows}, std::move(attrs));
  return divided(call, means, overflow_limit(sum_format(call.dtype())) / static_cast<double>(size));
}

constexpr Hazard kLpNorm[] = {{.rule = "FN205", .operand = 0, .unsafe = unsafe_share, .quantity = share_of_powers}};
constexpr Hazard kLocalResponse[] = {
    {.rule = "FN205", .operand = 0, .unsafe = unsafe_share, .quantity = share_of_neighbours}};

// ---- com.microsoft: sums that are normalised --------------------------------------------------------

template <ValueId (*Sum)(BuildCall&, DType), Centre C>
NormRows summed_rows(BuildCall& call) {
  const DType wide = sum_format(call.dtype());
  return {Sum(call, wide), {-1}, wide, C, call.real("epsilon")};
}

// Tables of float64 are added in float32, too.
NormRows embedding_rows(BuildCall& call) {
  return {embedding_sum(call, DType::float32), {-1}, DType::float32, Centre::mean, call.real("epsilon")};
}

bool channels_last(const BuildCall& call) { return call.integer("channels_last") != 0; }

// Images as [batch, groups, elements of a group].
NormRows image_groups(BuildCall& call, ValueId images) {
  if (channels_last(call)) images = transposed(call, images, {0, 3, 1, 2});
  const ValueId groups = reshaped(call, images, {0, call.integer("groups"), -1});
  return {groups, {2}, sum_format(call.dtype()), Centre::mean, call.real("epsilon")};
}

NormRows image_rows(BuildCall& call) { return image_groups(call, call.in(0)); }

NormRows skipped_image_rows(BuildCall& call) {
  return image_groups(call, skipped_images(call, sum_format(call.dtype())));
}

// Kernels that round the sum to the narrow format before they normalise it.
template <ValueId (*Sum)(BuildCall&, DType)>
constexpr Hazard kSum = {
    .rule = "FN203", .operand = 0, .unsafe = unsafe_beyond_largest, .quantity = [](BuildCall& call) {
      return Sum(call, DType::float64);
    }};

constexpr RowsOf kSkip = summed_rows<skip_layer_sum, Centre::mean>;
constexpr RowsOf kSkipRms = summed_rows<skip_rms_sum, Centre::zero>;
constexpr Hazard kSkipLayerNorm[] = {kVariance<kSkip>, kSquares<kSkip>, kElements<kSkip>, kSum<skip_layer_sum>};
constexpr Hazard kSkipRmsNorm[] = {kVariance<kSkipRms>, kSquares<kSkipRms>, kSum<skip_rms_sum>};
constexpr Hazard kEmbedLayerNorm[] = {kVariance<embedding_rows>, kSquares<embedding_rows>, kElements<embedding_rows>,
                                      kSum<embedding_sum>};
constexpr Hazard kImageGroupNorm[] = {kVariance<image_rows>, kSquares<image_rows>, kElements<image_rows>};
constexpr Hazard kSkipGroupNorm[] = {kVariance<skipped_image_rows>, kSquares<skipped_image_rows>,
                                     kElements<skipped_image_rows>, kSum<skipped_images>};

}  // namespace

Hazards layer_norm_hazards() { return kLayerNorm; }
Hazards rms_norm_hazards() { return kRmsNorm; }
Hazards group_norm_hazards() { return kGroupNorm; }
Hazards batch_norm_hazards() { return kBatchNorm; }
Hazards instance_norm_hazards() { return kInstanceNorm; }
Hazards mean_variance_norm_hazards() { return kMeanVarianceNorm; }
Hazards lp_norm_hazards() { return kLpNorm; }
Hazards local_response_norm_hazards() { return kLocalResponse; }
Hazards skip_layer_norm_hazards() { return kSkipLayerNorm; }
Hazards skip_rms_norm_hazards() { return kSkipRmsNorm; }
Hazards embed_layer_norm_hazards() { return kEmbedLayerNorm; }
Hazards image_group_norm_hazards() { return kImageGroupNorm; }
Hazards skip_group_norm_hazards() { return kSkipGroupNorm; }

}  // namespace finity
