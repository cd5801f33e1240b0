// Operands of ops that want certain shapes or numbers of them.
#include <algorithm>
#include <string_view>

#include "fuzz/drawing_class.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

using Ints = std::vector<std::int64_t>;

Ints with_inserted(const Ints& list, std::int64_t at, std::int64_t value) {
  Ints result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (static_cast<std::int64_t>(i) == at) result.push_back(value);
    result.push_back(list[i]);
  }
  if (at >= static_cast<std::int64_t>(list.size())) result.push_back(value);
  return result;
}

Tensor scalar_of(DType dtype, double value) { return from_elements<double>(dtype, {}, std::vector<double>{value}); }

}  // namespace

bool Drawing::special_operands() {
  return window_operands() || norm_operands() || movement_operands() || index_operands() || linear_operands() ||
         recurrent_operands() || quantised_operands();
}

bool Drawing::window_operands() {
  const bool transposed = op_.identity.name == "ConvTranspose";
  if (op_.identity.name != "Conv" && !transposed) return false;
  std::int64_t group = int_of("group", 1);
  if (group < 1 || channels() % group != 0) {
    group = 1;
    d_.step.attrs.set("group", group);
  }
  Ints kernel = ints_of("kernel_shape");
  while (static_cast<std::int64_t>(kernel.size()) < spatial()) kernel.push_back(g_.between(1, 3));
  const std::int64_t per_group = g_.between(1, 3);
  Dims weights = transposed ? Dims{channels(), per_group} : Dims{per_group * group, channels() / group};
  for (const std::int64_t length : kernel) weights.push_back(length);
  d_.step.inputs.push_back(give_float(weights));
  if (g_.chance(50)) d_.step.inputs.push_back(give_float({per_group * group}));
  return true;
}

bool Drawing::norm_operands() {
  if (op_.identity.name == "BatchNormalization") {
    const Dims each = {rank() > 1 ? x_[1] : rank() == 1 ? x_[0] : 1};
    for (int i = 0; i < 3; ++i) d_.step.inputs.push_back(give_float(each));
    d_.step.inputs.push_back(give_float(each, ValueClass::positive));
    return true;
  }
  if (op_.identity.name == "InstanceNormalization" || op_.identity.name == "GroupNormalization") {
    const bool per_group = op_.identity.name == "GroupNormalization" && g_.opset() < 21;
    const Dims each = {per_group ? int_of("num_groups", 1) : channels()};
    for (int i = 0; i < 2; ++i) d_.step.inputs.push_back(give_float(each));
    return true;
  }
  if (op_.identity.name == "LayerNormalization" || op_.identity.name == "RMSNormalization") {
    std::int64_t axis = int_of("axis", -1);
    if (axis < 0) axis += rank();
    if (axis < 0 || axis > rank()) return false;
    Dims each(x_.begin() + axis, x_.end());
    if (g_.chance(15)) each = with_inserted(each, 0, 1);
    d_.step.inputs.push_back(give_float(each));
    if (op_.identity.name == "LayerNormalization" && g_.chance(60)) d_.step.inputs.push_back(give_float(each));
    return true;
  }
  if (op_.identity.name == "PRelu") {
    Dims slope = broadcastable(x_);
    if (slope.size() > x_.size()) slope = {};
    d_.step.inputs.push_back(give_float(slope));
    return true;
  }
  return false;
}

bool Drawing::movement_operands() {
  const std::string_view op = op_.identity.name;
  auto& in = d_.step.inputs;
  if (op == "Reshape") {
    Ints shape = x_;
    for (std::size_t i = shape.size(); i > 1; --i) std::swap(shape[i - 1], shape[g_.rng().below(i)]);
    if (g_.chance(30)) shape = with_inserted(shape, g_.between(0, rank()), 1);
    if (g_.chance(30) && shape.size() > 1) {
      shape[1] *= shape[0];
      shape.erase(shape.begin());
    }
    if (g_.chance(40) && !shape.empty()) shape[g_.rng().below(shape.size())] = -1;
    in.push_back(give_ints(shape));
  } else if (op == "Expand") {
    Ints shape = x_;
    for (std::int64_t& size : shape) size = size == 1 && g_.chance(60) ? g_.between(1, 4) : g_.chance(20) ? 1 : size;
    if (g_.chance(30)) shape = with_inserted(shape, 0, g_.between(1, 3));
    in.push_back(give_ints(shape));
  } else if (op == "Tile") {
    Ints repeats;
    for (std::int64_t i = 0; i < rank(); ++i) repeats.push_back(g_.between(1, 3));
    in.push_back(give_ints(repeats));
  } else if (op == "Pad" && g_.opset() >= 11) {
    Ints pads;
    const Attr* mode = d_.step.attrs.find("mode");
    const bool mirrors = mode != nullptr && std::get<std::string>(*mode) == "reflect";
    const bool negative = g_.chance(15) && !mirrors;
    for (std::int64_t i = 0; i < 2 * rank(); ++i) {
      // What reflection beyond the other edge means is not said.
      const std::int64_t most =
          mirrors ? std::clamp<std::int64_t>(x_[static_cast<std::size_t>(i % rank())] - 1, 0, 3) : 3;
      pads.push_back(g_.chance(50) ? 0 : negative ? g_.between(-1, 2) : g_.between(0, most));
    }
    in.push_back(give_ints(pads));
    if (g_.chance(50))
      in.push_back(give(scalar_of(x_type_, g_.chance(50) ? 0 : static_cast<double>(g_.between(0, 5))), 80));
  } else if (op == "Slice" && g_.opset() >= 10) {
    Ints starts, ends, axes, steps;
    for (std::int64_t axis = 0; axis < rank(); ++axis) {
      if (g_.chance(50)) continue;
      const std::int64_t step = g_.chance(70) ? g_.between(1, 2) : -g_.between(1, 2);
      const std::int64_t low = g_.between(0, std::max<std::int64_t>(x_[static_cast<std::size_t>(axis)] - 1, 0));
      const std::int64_t high = g_.between(low, x_[static_cast<std::size_t>(axis)]) + 1;
      starts.push_back(step > 0 ? low : high - 1);
      ends.push_back(step > 0 ? high : low == 0 || g_.chance(20) ? -1000 : low - 1);
      axes.push_back(g_.chance(30) ? axis - rank() : axis);
      steps.push_back(step);
    }
    for (const Ints& list : {starts, ends, axes, steps}) in.push_back(give_ints(list));
  } else if (op == "Squeeze" && g_.opset() >= 13) {
    Ints ones;
    for (std::int64_t axis = 0; axis < rank(); ++axis) {
      if (x_[static_cast<std::size_t>(axis)] == 1 && g_.chance(70)) ones.push_back(axis);
    }
    // Whether no axes means none or all is not said.
    if (!ones.empty()) in.push_back(give_ints(ones));
  } else if (op == "Unsqueeze" && g_.opset() >= 13) {
    in.push_back(give_ints({g_.between(-rank() - 1, rank())}));
  } else if (op == "Split" && g_.opset() >= 13) {
    const std::int64_t axis = (int_of("axis", 0) + rank()) % std::max<std::int64_t>(rank(), 1);
    if (rank() == 0 || d_.step.attrs.find("num_outputs") != nullptr) return true;
    const std::int64_t whole = x_[static_cast<std::size_t>(axis)], part = g_.between(0, whole);
    many_outputs_ = 2;
    in.push_back(give_ints({part, whole - part}));
  } else {
    return false;
  }
  return true;
}

bool Drawing::index_operands() {
  const std::string_view op = op_.identity.name;
  auto& in = d_.step.inputs;
  const std::int64_t axis = (int_of("axis", 0) + rank()) % std::max<std::int64_t>(rank(), 1);
  const std::int64_t length = rank() == 0 ? 1 : std::max<std::int64_t>(x_[static_cast<std::size_t>(axis)], 1);
  const auto indices = [&](Dims dims, std::int64_t limit) {
    Ints values(static_cast<std::size_t>(element_count(dims)));
    for (std::int64_t& value : values) value = g_.between(g_.chance(20) ? -limit : 0, limit - 1);
    return give(from_elements<std::int64_t>(g_.chance(80) ? DType::int64 : DType::int32, std::move(dims), values), 60);
  };
  if (op == "Gather") {
    Dims dims;
    for (std::int64_t i = g_.between(0, 2); i > 0; --i) dims.push_back(g_.between(1, 3));
    in.push_back(indices(dims, length));
  } else if (op == "GatherElements") {
    Dims dims = x_;
    if (!dims.empty()) dims[static_cast<std::size_t>(axis)] = g_.between(1, 4);
    in.push_back(indices(dims, length));
  } else if (op == "ScatterElements") {
    Dims dims = x_;
    for (std::int64_t& size : dims) size = g_.between(std::min<std::int64_t>(size, 1), size);
    // No place twice: which of two updates wins is not said.
    std::int64_t behind = 1;
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < dims.size(); ++i) behind *= dims[i];
    Ints places(static_cast<std::size_t>(element_count(dims)));
    const std::int64_t along = dims.empty() ? 1 : std::max<std::int64_t>(dims[static_cast<std::size_t>(axis)], 1),
                       shift = g_.between(0, length - 1);
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] = (static_cast<std::int64_t>(i) / std::max<std::int64_t>(behind, 1) % along + shift) % length;
    in.push_back(give(from_elements<std::int64_t>(DType::int64, dims, places), 60));
    in.push_back(give(g_.draw(x_type_, dims), 50));
  } else if (op == "MaxUnpool") {
    // Places in the result, which is at least as large; none twice here either.
    Ints places(static_cast<std::size_t>(element_count(x_)));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i);
    for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[g_.rng().below(i)]);
    in.push_back(give(from_elements<std::int64_t>(DType::int64, x_, places), 50));
  } else if (op == "TopK" && g_.opset() >= 10) {
    const std::int64_t at = (int_of("axis", -1) + rank()) % std::max<std::int64_t>(rank(), 1);
    in.push_back(
        give_ints({rank() == 0 ? 1 : g_.between(1, std::max<std::int64_t>(x_[static_cast<std::size_t>(at)], 1))}));
  } else if (op == "CumSum") {
    in.push_back(give(
        Tensor::scalar(g_.between(-std::max<std::int64_t>(rank(), 1), std::max<std::int64_t>(rank() - 1, 0))), 90));
  } else if (op == "Trilu") {
    if (g_.chance(60)) in.push_back(give(Tensor::scalar(g_.between(-3, 3)), 80));
  } else if (op.starts_with("Reduce") && (g_.opset() >= 18 || (op == "ReduceSum" && g_.opset() >= 13))) {
    if (g_.chance(75)) in.push_back(give_ints(g_.chance(15) ? Ints{} : axes()));
  } else if (op == "Clip" && g_.opset() >= 11) {
    const double low = static_cast<double>(g_.between(-4, 4)) / 2;
    in.push_back(g_.chance(80) ? give(scalar_of(x_type_, low), 80) : std::string());
    if (in.back().empty() || g_.chance(80))
      in.push_back(give(scalar_of(x_type_, low + static_cast<double>(g_.between(0, 6)) / 2), 80));
  } else if (op == "Upsample" && g_.opset() >= 9) {
    std::vector<double> scales;
    for (std::int64_t axis = 0; axis < rank(); ++axis) scales.push_back(rank() > 2 && axis < 2 ? 1 : g_.between(1, 3));
    in.push_back(give(from_elements<double>(DType::float32, {rank()}, scales), 90));
  } else if (op == "Resize" && g_.opset() >= 11) {
    resize_operands();
  } else {
    return false;
  }
  return true;
}

// Scales or sizes for all axes or for those that are named, and what part is looked at.
void Drawing::resize_operands() {
  auto& in = d_.step.inputs;
  Ints axes = ints_of("axes");
  if (d_.step.attrs.find("axes") == nullptr) {
    for (std::int64_t axis = 0; axis < rank(); ++axis) axes.push_back(axis);
  }
  const bool by_sizes = g_.chance(30);
  constexpr double kScales[] = {0.5, 1, 1.5, 2, 3, 0.75, 0.6, 4, 0.25, 0.5, 2};
  std::vector<double> scales;
  Ints sizes;
  for (const std::int64_t axis : axes) {
    const auto place = static_cast<std::size_t>(axis < 0 ? axis + rank() : axis);
    const bool stays = rank() > 2 && place < 2 && g_.chance(85);
    scales.push_back(stays ? 1 : kScales[g_.rng().below(std::size(kScales))]);
    const std::int64_t size = x_[place];
    sizes.push_back(stays || g_.chance(20) ? size : g_.chance(40) ? size * 2 : g_.between(1, 9));
  }
  const Attr* how = d_.step.attrs.find("coordinate_transformation_mode");
  in.emplace_back();
  if (how != nullptr && std::get<std::string>(*how) == "tf_crop_and_resize") {
    std::vector<double> roi;
    for (const double end : {0.0, 0.75}) {
      for (std::size_t i = 0; i < axes.size(); ++i) roi.push_back(end + 0.125 * static_cast<double>(g_.between(0, 2)));
    }
    in.back() = give(from_elements<double>(DType::float32, {static_cast<std::int64_t>(roi.size())}, roi), 90);
  }
  in.push_back(
      by_sizes ? std::string()
               : give(from_elements<double>(DType::float32, {static_cast<std::int64_t>(scales.size())}, scales), 90));
  if (by_sizes) in.push_back(give_ints(sizes));
}

bool Drawing::linear_operands() {
  auto& in = d_.step.inputs;
  if (op_.identity.name == "Pow" && !is_float(x_type_)) {
    // Overflow and negative exponents of integers have no meaning.
    in.push_back(give(scalar_of(x_type_, static_cast<double>(g_.between(0, 3))), 60));
    return true;
  }
  if (op_.identity.name == "Gemm" && rank() == 2) {
    const bool ta = int_of("transA", 0) != 0, tb = int_of("transB", 0) != 0;
    const std::int64_t m = ta ? x_[1] : x_[0], k = ta ? x_[0] : x_[1], n = g_.chance(40) ? k : size();
    in.push_back(give_float(tb ? Dims{n, k} : Dims{k, n}));
    if (g_.chance(60)) {
      Dims c = broadcastable({m, n});
      if (c.size() > 2) c.erase(c.begin());
      in.push_back(give_float(c));
    }
    return true;
  }
  if (op_.identity.name == "MatMul" && rank() > 0) {
    const std::int64_t k = x_.back(), n = g_.chance(40) ? k : size();
    Dims other;
    const bool batches = g_.chance(50);
    for (std::int64_t i = 0; batches && i + 2 < rank(); ++i)
      other.push_back(g_.chance(25) ? 1 : x_[static_cast<std::size_t>(i)]);
    other.push_back(k);
    if (!g_.chance(10) || other.size() > 1) other.push_back(n);
    in.push_back(give(g_.draw(x_type_, other), 50));
    return true;
  }
  if (op_.identity.name == "Einsum" && rank() >= 1 && rank() <= 3) {
    constexpr std::string_view kOne[] = {"i->", "i->i", "i,i->", "i,j->ij"};
    constexpr std::string_view kTwo[] = {"ij->ji",   "ij->j",   "ij,jk->ik", "ij,kj->ik",
                                         "ij,ij->i", "ij,ij->", "ii->i",     "ij,k->ikj"};
    constexpr std::string_view kThree[] = {"bij->bji",     "bij,bjk->bik", "bij,jk->bik",
                                           "bij,bkj->bki", "bij->i",       "bii->bi"};
    const auto pick = [&](auto& list) { return std::string(list[g_.rng().below(std::size(list))]); };
    const std::string text = rank() == 1 ? pick(kOne) : rank() == 2 ? pick(kTwo) : pick(kThree);
    d_.step.attrs.set("equation", text);
    const std::size_t comma = text.find(',');
    if (comma == std::string::npos) return true;
    std::map<char, std::int64_t> sizes;
    for (std::size_t i = 0; i < x_.size(); ++i) sizes[text[i]] = x_[i];
    Dims other;
    for (std::size_t i = comma + 1; text[i] != '-'; ++i)
      other.push_back(sizes.try_emplace(text[i], size()).first->second);
    in.push_back(give(g_.draw(x_type_, other), 50));
    return true;
  }
  return false;
}

bool Drawing::recurrent_operands() {
  const std::int64_t gates = op_.identity.name == "LSTM"  ? 4
                             : op_.identity.name == "GRU" ? 3
                             : op_.identity.name == "RNN" ? 1
                                                          : 0;
  if (gates == 0 || rank() != 3) return false;
  auto& in = d_.step.inputs;
  const std::int64_t hidden = int_of("hidden_size", 2), steps = x_[0], batch = x_[1], width = x_[2];
  const Attr* direction = d_.step.attrs.find("direction");
  const std::int64_t ways = direction != nullptr && std::get<std::string>(*direction) == "bidirectional" ? 2 : 1;
  in.push_back(give_float({ways, gates * hidden, width}));
  in.push_back(give_float({ways, gates * hidden, hidden}));
  in.push_back(g_.chance(60) ? give_float({ways, 2 * gates * hidden}) : std::string());
  in.emplace_back();
  if (g_.chance(25)) {
    Ints lengths(static_cast<std::size_t>(batch));
    for (std::int64_t& length : lengths) length = g_.between(1, std::max<std::int64_t>(steps, 1));
    in.back() = give(from_elements<std::int64_t>(DType::int32, {batch}, lengths), 50);
  }
  if (g_.chance(40)) in.push_back(give_float({ways, batch, hidden}));
  if (op_.identity.name == "LSTM" && in.size() == 6 && g_.chance(60)) {
    in.push_back(give_float({ways, batch, hidden}));
    if (g_.chance(30)) in.push_back(give_float({ways, 3 * hidden}));
  }
  while (in.back().empty()) in.pop_back();
  return true;
}

bool Drawing::quantised_operands() {
  if (op_.identity.name != "QuantizeLinear" && op_.identity.name != "DequantizeLinear") return false;
  const bool to = op_.identity.name == "QuantizeLinear";
  const DType code = to ? (g_.chance(50) ? DType::uint8 : DType::int8) : x_type_;
  const DType real = to ? x_type_ : DType::float32;
  const std::int64_t axis = (int_of("axis", 1) + rank()) % std::max<std::int64_t>(rank(), 1);
  const Dims dims = rank() > 0 && g_.opset() >= 13 && g_.chance(40) ? Dims{x_[static_cast<std::size_t>(axis)]} : Dims{};
  d_.step.inputs.push_back(give(g_.draw(real, dims, ValueClass::positive), 80));
  if (g_.chance(70)) d_.step.inputs.push_back(give(g_.draw(code, dims, ValueClass::positive), 80));
  return true;
}

}  // namespace finity::fuzz
