// Weights of ONNX Runtime's models that are quantised in blocks with a scale each.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "ops/linear/contract_range.h"
#include "ops/linear/dot.h"
#include "ops/linear/linear_gradient.h"
#include "ops/linear/matmul.h"
#include "ops/quantised/quantised_gradient.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// ---- MatMulNBits ---------------------------------------------------------------------

struct BlockLayout {
  std::int64_t n = 0, k = 0, bits = 0, block = 0, blocks = 0;

  explicit BlockLayout(const Call& call)
      : n(call.integer("N")), k(call.integer("K")), bits(call.integer("bits")), block(call.integer("block_size")) {
    if (n < 1 || k < 1) throw Error("attributes 'N' and 'K' are positive sizes");
    if (bits != 2 && bits != 4 && bits != 8) throw Unsupported("weights of " + std::to_string(bits) + " bits");
    if (block < 16 || (block & (block - 1)) != 0) throw Error("attribute 'block_size' is " + std::to_string(block));
    blocks = k / block + (k % block != 0 ? 1 : 0);
  }
};

// Number `index` of a row of packed bytes, low bits first.
std::int64_t unpacked(const std::uint8_t* row, std::int64_t index, std::int64_t bits) {
  const std::int64_t per_byte = 8 / bits;
  return (row[index / per_byte] >> (bits * (index % per_byte))) & ((1 << bits) - 1);
}

void require_size(const Tensor& tensor, std::string_view name, std::int64_t size) {
  if (tensor.size() == size) return;
  throw Error(std::string(name) + " has shape " + to_string(tensor.dims()) + ", expected " + std::to_string(size) +
              " elements");
}

// One per block of each row.
std::vector<double> block_zero_points(const Tensor* points, const BlockLayout& layout) {
  const auto count = static_cast<std::size_t>(layout.n * layout.blocks);
  if (points == nullptr) return std::vector<double>(count, static_cast<double>(1 << (layout.bits - 1)));
  const Tensor& given = *points;
  if (given.dtype() != DType::uint8) {
    require_size(given, "zero_points", layout.n * layout.blocks);
    return elements<double>(given);
  }
  const std::int64_t row_bytes = (layout.blocks * layout.bits + 7) / 8;
  require_size(given, "zero_points", layout.n * row_bytes);
  std::vector<double> result;
  for (std::int64_t row = 0; row < layout.n; ++row) {
    for (std::int64_t b = 0; b < layout.blocks; ++b) {
      const std::uint8_t* bytes = given.data<std::uint8_t>().data() + row * row_bytes;
      result.push_back(static_cast<double>(unpacked(bytes, b, layout.bits)));
    }
  }
  return result;
}

// The block whose scale an input feature has: its own, or the one g_idx names.
std::vector<std::int64_t> feature_blocks(const EvalCall& call, const BlockLayout& layout) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < layout.k; ++i) result.push_back(i / layout.block);
  if (!call.has_input(4)) return result;
  const std::vector<std::int64_t> given = elements<std::int64_t>(call.in(4));
  if (given.size() < result.size()) throw Error("g_idx has fewer elements than K");
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (given[i] < 0 || given[i] >= layout.blocks) throw Error("g_idx names block " + std::to_string(given[i]));
    result[i] = given[i];
  }
  return result;
}

// The weights as a matrix [K, N].
template <class A>
std::vector<A> dequantized(const EvalCall& call, const BlockLayout& layout) {
  const std::int64_t blob = layout.block * layout.bits / 8;
  require_size(call.in(1), "B", element_count(Dims{layout.n, layout.blocks, blob}));
  require_size(call.in(2), "scales", layout.n * layout.blocks);
  const std::vector<double> scales = elements<double>(call.in(2));
  const std::vector<double> zeros = block_zero_points(call.has_input(3) ? &call.in(3) : nullptr, layout);
  const std::vector<std::int64_t> blocks = feature_blocks(call, layout);
  const std::span<const std::uint8_t> bytes = call.in(1).data<std::uint8_t>();
  std::vector<A> result(result_count(Dims{layout.k, layout.n}));
  for (std::int64_t row = 0; row < layout.n; ++row) {
    const std::uint8_t* packed = bytes.data() + row * layout.blocks * blob;
    for (std::int64_t i = 0; i < layout.k; ++i) {
      const auto at = static_cast<std::size_t>(row * layout.blocks + blocks[static_cast<std::size_t>(i)]);
      const double level = static_cast<double>(unpacked(packed, i, layout.bits)) - zeros[at];
      result[static_cast<std::size_t>(i * layout.n + row)] = static_cast<A>(level * scales[at]);
    }
  }
  return result;
}

void infer_matmul_nbits(InferCall& call) {
  if (!call.ranked(0)) return;
  require_min_rank(call, 0, 1);
  Shape shape = call.shape(0);
  if (shape.back().known() && shape.back().size != call.integer("K")) {
    throw Error("the last dimension of A is " + std::to_string(shape.back().size) + ", attribute 'K' is " +
                std::to_string(call.integer("K")));
  }
  shape.back() = Dim::of(call.integer("N"));
  call.set_shape(0, std::move(shape));
}

void eval_matmul_nbits(EvalCall& call) {
  const BlockLayout layout(call);
  if (call.integer("weight_prepacked") != 0) throw Unsupported("prepacked weights");
  const Tensor& a = call.in(0);
  if (a.rank() == 0 || a.dims().back() != layout.k) throw Error("A has shape " + to_string(a.dims()));
  Dims dims = a.dims();
  dims.back() = layout.n;
  call.out(0, with_float_sum_type(a.dtype(), [&]<class A>() {
             const std::vector<A> left = elements<A>(a), right = dequantized<A>(call, layout);
             std::vector<A> product(result_count(dims));
             const std::int64_t rows = element_count(std::span(dims).first(dims.size() - 1));
             add_product(product.data(), left.data(), right.data(), rows, layout.k, layout.n);
             if (call.has_input(5)) {
               require_size(call.in(5), "bias", layout.n);
               const std::vector<A> bias = elements<A>(call.in(5));
               for (std::size_t i = 0; i < product.size(); ++i) product[i] += bias[i % bias.size()];
             }
             return from_elements<A>(a.dtype(), dims, product);
           }));
}

// ---- GatherBlockQuantized --------------------------------------------------------------

// The table as it is meant: bytes that pack several numbers along the last axis are taken apart.
struct QuantizedTable {
  Dims dims;
  std::size_t gather_axis = 0, block_axis = 0;
  std::int64_t block = 0;  // the whole axis when 0
  std::vector<double> levels, scales, zeros;
  std::vector<std::int64_t> scale_strides;
};

std::int64_t packed_bits(const Call& call, DType dtype) {
  if (dtype != DType::uint8) return 0;
  const std::int64_t bits = call.integer("bits");
  if (bits != 2 && bits != 4 && bits != 8) throw Unsupported("data of " + std::to_string(bits) + " bits");
  return bits;
}

// Dimensions once numbers of `bits` bits (0: not packed) are taken apart.
Dims unpacked_dims(Dims dims, std::int64_t bits) {
  if (dims.empty()) throw Error("data is a scalar");
  if (bits != 0) dims.back() *= 8 / bits;
  return dims;
}

std::vector<double> unpacked_values(const Tensor& tensor, std::int64_t bits, std::int64_t row) {
  if (bits == 0) return elements<double>(tensor);
  const std::int64_t row_bytes = tensor.dims().back();
  std::vector<double> result;
  for (std::int64_t at = 0; at < tensor.size(); at += row_bytes) {
    const std::uint8_t* bytes = tensor.data<std::uint8_t>().data() + at;
    for (std::int64_t i = 0; i < row; ++i) result.push_back(static_cast<double>(unpacked(bytes, i, bits)));
  }
  return result;
}

// One scale per block; an axis of size 1 is shared by all its indices where the data are floats.
void read_scales(const EvalCall& call, QuantizedTable& table) {
  const Tensor& scales = call.in(2);
  require_rank(scales, "scales", table.dims.size());
  table.scales = elements<double>(scales);
  table.scale_strides = strides_of(scales.dims());
  const bool shared = is_float(call.in(0).dtype());
  for (std::size_t axis = 0; axis < table.dims.size(); ++axis) {
    const std::int64_t size = table.dims[axis];
    const std::int64_t blocks = table.block == 0 ? 1 : size / table.block + (size % table.block != 0 ? 1 : 0);
    const std::int64_t wanted = axis == table.block_axis ? blocks : size;
    if (shared && scales.dim(axis) == 1) table.scale_strides[axis] = 0;
    else if (scales.dim(axis) != wanted) throw Error("scales have shape " + to_string(scales.dims()));
  }
}

void read_zeros(const EvalCall& call, QuantizedTable& table, std::int64_t bits) {
  table.zeros.assign(table.scales.size(), bits == 0 ? 0.0 : static_cast<double>(1 << (bits - 1)));
  if (!call.has_input(3)) return;
  const Tensor& given = call.in(3);
  Dims wanted = call.in(2).dims();
  const std::int64_t row = wanted.back();
  if (bits != 0) wanted.back() = (row * bits + 7) / 8;
  if (is_float(call.in(0).dtype())) throw Error("float data have no zero points");
  if (given.dims() != wanted) throw Error("zero_points have shape " + to_string(given.dims()));
  table.zeros = unpacked_values(given, bits, row);
}

QuantizedTable read_table(const EvalCall& call) {
  const Tensor& data = call.in(0);
  const std::int64_t bits = packed_bits(call, data.dtype());
  QuantizedTable table;
  table.dims = unpacked_dims(data.dims(), bits);
  require_computable(table.dims);
  table.gather_axis = normalize_axis(call.integer("gather_axis"), data.rank());
  table.block_axis = normalize_axis(call.integer("quantize_axis"), data.rank());
  table.block = call.integer("block_size");
  const bool power = table.block >= 16 && (table.block & (table.block - 1)) == 0;
  if (!power && !(table.block == 0 && is_float(data.dtype()))) {
    throw Error("attribute 'block_size' is " + std::to_string(table.block));
  }
  if (bits != 0 && table.gather_axis + 1 == data.rank() && bits != 8)
    throw Error("packed data gathered along its rows");
  table.levels = unpacked_values(data, bits, table.dims.back());
  read_scales(call, table);
  read_zeros(call, table, bits);
  return table;
}

double dequantized(const QuantizedTable& table, std::int64_t position) {
  std::int64_t rest = position, scale = 0;
  for (std::size_t axis = table.dims.size(); axis-- > 0;) {
    std::int64_t index = rest % table.dims[axis];
    rest /= table.dims[axis];
    if (axis == table.block_axis) index = table.block == 0 ? 0 : index / table.block;
    scale += index * table.scale_strides[axis];
  }
  const auto at = static_cast<std::size_t>(scale);
  return (table.levels[static_cast<std::size_t>(position)] - table.zeros[at]) * table.scales[at];
}

template <class List>
List gathered_sizes(const List& data, const List& indices, std::size_t axis) {
  const auto at = data.begin() + static_cast<std::ptrdiff_t>(axis);
  List result(data.begin(), at);
  result.insert(result.end(), indices.begin(), indices.end());
  result.insert(result.end(), at + 1, data.end());
  return result;
}

void infer_gather_blocks(InferCall& call) {
  if (!call.ranked(0) || !call.ranked(1) || call.in(0).dtype == DType::undefined) return;
  Shape data = call.shape(0);
  const std::size_t axis = normalize_axis(call.integer("gather_axis"), data.size());
  const std::int64_t bits = packed_bits(call, call.in(0).dtype);
  if (bits != 0) data.back() = data.back().known() ? Dim::of(data.back().size * (8 / bits)) : Dim{};
  call.set_shape(0, gathered_sizes(data, call.shape(1), axis));
}

void eval_gather_blocks(EvalCall& call) {
  const QuantizedTable table = read_table(call);
  const AxisView view(table.dims, table.gather_axis);
  const std::vector<std::int64_t> indices = elements<std::int64_t>(call.in(1));
  Dims dims = gathered_sizes(table.dims, call.in(1).dims(), table.gather_axis);
  std::vector<double> result;
  result.reserve(result_count(dims));
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (const std::int64_t given : indices) {
      const std::int64_t index = checked_index(given, view.length);
      for (std::int64_t i = 0; i < view.inner; ++i) {
        result.push_back(dequantized(table, static_cast<std::int64_t>(view.at(o, index, i))));
      }
    }
  }
  call.out(0, from_elements(call.in(2).dtype(), std::move(dims), result));
}

// ---- ranges ----------------------------------------------------------------------------

// Sums of |level - zero| and of level - zero over bytes of two numbers each.
struct LevelSums {
  double sum = 0, magnitude = 0;
};
LevelSums add_nibbles(const std::uint8_t* bytes, std::int64_t count, int zero) {
  constexpr std::int64_t kLanes = 8;
  int sums[kLanes] = {}, magnitudes[kLanes] = {};
  std::int64_t i = 0;
  const auto add = [&](std::int64_t at, std::int64_t lane) {
    const int low = (bytes[at] & 15) - zero, high = (bytes[at] >> 4) - zero;
    sums[lane] += low + high;
    magnitudes[lane] += std::abs(low) + std::abs(high);
  };
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (; i < count; ++i) add(i, 0);
  LevelSums result;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    result.sum += sums[lane];
    result.magnitude += magnitudes[lane];
  }
  return result;
}

// Elements [first, first + count) of a packed row.
LevelSums add_levels(const std::uint8_t* row, std::int64_t first, std::int64_t count, std::int64_t bits, double zero) {
  const bool whole = bits == 4 && first % 2 == 0 && count % 2 == 0 && zero == std::floor(zero) && std::abs(zero) < 256;
  if (whole) return add_nibbles(row + first / 2, count / 2, static_cast<int>(zero));
  LevelSums result;
  for (std::int64_t i = first; i < first + count; ++i) {
    const double level = static_cast<double>(unpacked(row, i, bits)) - zero;
    result.sum += level;
    result.magnitude += std::abs(level);
  }
  return result;
}

// What the known operands of MatMulNBits say; null when one is not known.
struct KnownBlocks {
  std::span<const std::byte> bytes = {};
  std::vector<double> scales = {}, zeros = {};
};
std::optional<KnownBlocks> known_blocks(RangeCall& call, const BlockLayout& layout) {
  const std::optional<Weights> packed = weights_of(call, 1);
  const Tensor* scales = call.value(2);
  const std::int64_t count = layout.n * layout.blocks, blob = layout.block * layout.bits / 8;
  if (!packed || scales == nullptr || scales->size() != count || call.has_input(4)) return std::nullopt;
  if (static_cast<std::int64_t>(packed->data.bytes.size()) != count * blob) return std::nullopt;
  const Tensor* zeros = call.has_input(3) ? call.value(3) : nullptr;
  if (call.has_input(3) && zeros == nullptr) return std::nullopt;
  KnownBlocks result{packed->data.bytes, elements<double>(*scales), block_zero_points(zeros, layout)};
  return result;
}

DotSum nbits_sum(const KnownBlocks& known, const BlockLayout& layout, std::int64_t row, const Range& x) {
  const std::int64_t blob = layout.block * layout.bits / 8;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(known.bytes.data()) + row * layout.blocks * blob;
  double positive = 0, negative = 0;
  for (std::int64_t b = 0; b < layout.blocks; ++b) {
    const auto at = static_cast<std::size_t>(row * layout.blocks + b);
    const std::int64_t first = b * layout.block, count = std::min(layout.block, layout.k - first);
    const LevelSums sums = add_levels(bytes, first, count, layout.bits, known.zeros[at]);
    const double up = known.scales[at] * (sums.magnitude + sums.sum) / 2;
    const double down = known.scales[at] * (sums.sum - sums.magnitude) / 2;
    positive += std::max(up, down);
    negative += std::min(up, down);
  }
  DotSum sum;
  add_weighted(sum, x, positive, negative, static_cast<double>(layout.k), true);
  return sum;
}

// Any weight there can be: (level - zero) * scale.
Range block_weight(const RangeCall& call, std::size_t scales, std::size_t zeros, double levels, const Range& fallback) {
  Range zero = fallback;
  if (call.has_range(zeros)) {
    const bool packed = call.in_dtype(zeros) == DType::uint8;
    zero = packed ? Range{.lo = 0, .hi = levels, .integer = true} : call.hull(zeros);
  }
  const Range level = subtract(DType::float64, {.lo = 0, .hi = levels, .integer = true}, zero);
  return multiply(DType::float64, level, call.hull(scales));
}

// Weights may be rounded to the dtype, and with accuracy level 4 A to 8 bits.
void loosen(DotSum& sum, DType dtype, std::int64_t accuracy) {
  const double error = sum.magnitude * (unit_roundoff(dtype) + (accuracy == 4 ? 1.0 / 200 : 0));
  // Neither changes a sign.
  sum.lo = sum.below < 0 ? sum.lo - error : std::max(sum.lo - error, 0.0);
  sum.hi = sum.above > 0 ? sum.hi + error : std::min(sum.hi + error, 0.0);
  if (sum.below < 0) sum.below -= error;
  if (sum.above > 0) sum.above += error;
}

void range_matmul_nbits(RangeCall& call) {
  const BlockLayout layout(call);
  const Range x = call.hull(0);
  const Type& type = call.out_type(0);
  const std::optional<KnownBlocks> known = known_blocks(call, layout);
  SumGrid grid;
  grid.ranked = type.ranked && !type.shape.empty();
  if (grid.ranked) {
    for (const Dim& dim : type.shape) grid.sizes.push_back(dim.known() ? dim.size : -1);
    grid.cuts.resize(grid.sizes.size());
    if (known && grid.sizes.back() == layout.n) grid.cuts.back() = even_cuts(layout.n, call.max_cells());
  }
  grid.cells.assign(grid.cell_count(), DotSum{.empty = true});
  grid.terms = static_cast<double>(layout.k) + 4;
  for (std::int64_t row = 0; known && row < layout.n; ++row) {
    const std::size_t block =
        grid.ranked
            ? static_cast<std::size_t>(std::ranges::upper_bound(grid.cuts.back(), row) - grid.cuts.back().begin())
            : 0;
    grid.cells[block] = join(grid.cells[block], nbits_sum(*known, layout, row, x));
  }
  if (!known) {
    DotSum sum;
    const double levels = static_cast<double>((1 << layout.bits) - 1);
    const Range weight = block_weight(call, 2, 3, levels, point(static_cast<double>(1 << (layout.bits - 1))));
    add_products(sum, x, weight, static_cast<double>(layout.k), static_cast<double>(layout.k));
    grid.cells[0] = sum;
  }
  for (DotSum& sum : grid.cells) loosen(sum, call.in_dtype(0), call.integer("accuracy_level"));
  if (call.has_range(5)) add_tensor(grid, call.in(5), 1);
  call.out(0, rounded(call, type, grid));
}

void range_gather_blocks(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  const std::int64_t bits = packed_bits(call, call.in_dtype(0));
  Range weight;
  if (bits != 0) {
    const auto levels = static_cast<double>((1 << bits) - 1);
    weight = block_weight(call, 2, 3, levels, point(static_cast<double>(1 << (bits - 1))));
  } else {
    const Range zero = call.has_range(3) ? call.hull(3) : point(0);
    weight = multiply(DType::float64, subtract(DType::float64, call.hull(0), zero), call.hull(2));
  }
  Range result = weight.has_finite() ? from_bounds(dtype, weight.lo, weight.hi, 1) : Range{};
  result.nan |= weight.nan;
  result.pinf |= weight.pinf;
  result.ninf |= weight.ninf;
  call.out(0, result);
}

const OpDef kOps[] = {
    {.identity =
         {.name = "MatMulNBits",
          .domain = kMicrosoft,
          .summary = "product with a weight matrix of 2, 4 or 8 bits that has one scale per block",
          .signature = "(A: T, B: uint8, scales: T, zero_points?: Z, g_idx?: int32, bias?: T) -> (Y: T) "
                       "where T: float, Z: float | uint8",
          .attrs =
              "K: int; N: int; accuracy_level: int = 0; bits: int = 4; block_size: int; weight_prepacked: int = 0"},
     .meaning = {.infer = infer_matmul_nbits,
                 .eval = eval_matmul_nbits,
                 .freedom = "weights are dequantised to float32 (float64 for A in it) and A is not quantised, whatever "
                            "accuracy_level allows; products "
                            "are added in index order there and rounded once"},
     .analysis = {.range = range_matmul_nbits, .vjp = block_product_gradient, .overflow = "FN204"}},
    {.identity = {.name = "GatherBlockQuantized",
                  .domain = kMicrosoft,
                  .summary = "rows of a table that is quantised in blocks, dequantised",
                  .signature = "(data: D, indices: int32 | int64, scales: T, zero_points?: D) -> (output: T) "
                               "where D: int4 | uint4 | uint8 | float8 | float4e2m1, T: float",
                  .attrs = "bits: int = 4; block_size: int = 128; gather_axis: int = 0; quantize_axis: int = 1"},
     .meaning = {.infer = infer_gather_blocks, .eval = eval_gather_blocks, .freedom = "rounds once"},
     .analysis = {.range = range_gather_blocks, .vjp = gather_blocks_gradient, .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> microsoft_block_ops() { return kOps; }

}  // namespace finity
