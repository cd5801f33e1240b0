#include "ops/shared/move_elements.h"

#include "base/error.h"
#include "ops/shared/shapes.h"

namespace finity {

namespace {

template <class S>
class Picker {
 public:
  Picker(std::span<const S> from, std::span<S> to, const AxisOffsets& offsets, S fill)
      : from_(from), to_(to), offsets_(offsets), fill_(std::move(fill)) {}

  // A negative base is a gap already.
  void run(std::size_t axis, std::int64_t base) {
    if (axis == offsets_.size()) {
      put(base);
    } else if (axis + 1 == offsets_.size()) {
      for (const std::int64_t offset : offsets_[axis]) put(next(base, offset));
    } else {
      for (const std::int64_t offset : offsets_[axis]) run(axis + 1, next(base, offset));
    }
  }

 private:
  static std::int64_t next(std::int64_t base, std::int64_t offset) {
    return base < 0 || offset < 0 ? -1 : base + offset;
  }
  void put(std::int64_t at) { to_[count_++] = at < 0 ? fill_ : from_[static_cast<std::size_t>(at)]; }

  std::span<const S> from_;
  std::span<S> to_;
  const AxisOffsets& offsets_;
  S fill_;
  std::size_t count_ = 0;
};

}  // namespace

Tensor pick(const Tensor& source, const AxisOffsets& offsets, const Tensor* fill) {
  Dims dims;
  for (const auto& axis : offsets) dims.push_back(static_cast<std::int64_t>(axis.size()));
  Tensor result(source.dtype(), std::move(dims));
  if (result.empty()) return result;
  with_storage(source.dtype(), [&]<class S>() {
    const S gap = fill != nullptr ? stored<S>(*fill)[0] : S{};
    Picker<S>(stored<S>(source), mutable_stored<S>(result), offsets, gap).run(0, 0);
  });
  return result;
}

std::vector<std::int64_t> ramp(std::int64_t count, std::int64_t step) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<std::int64_t>(i) * step;
  return result;
}

AxisOffsets plain_offsets(std::span<const std::int64_t> dims) {
  require_computable(dims);
  const std::vector<std::int64_t> strides = strides_of(dims);
  AxisOffsets result;
  for (std::size_t i = 0; i < dims.size(); ++i) result.push_back(ramp(dims[i], strides[i]));
  return result;
}

Tensor transposed(const Tensor& source, std::span<const std::size_t> order) {
  const AxisOffsets plain = plain_offsets(source.dims());
  AxisOffsets offsets;
  for (const std::size_t axis : order) offsets.push_back(plain[axis]);
  return pick(source, offsets);
}

void require_computable(std::span<const std::int64_t> dims) {
  // A zero next to a huge size has no elements but would still need a huge table.
  const bool empty = element_count(dims) == 0;
  const std::int64_t longest = empty ? std::int64_t{1} << 24 : Tensor::kMaxBytes / 16;
  for (const std::int64_t dim : dims) {
    if (dim > longest) throw Error("tensor " + to_string(dims) + " is too large");
  }
  if (element_count(dims) > Tensor::kMaxBytes / 16) throw Error("tensor " + to_string(dims) + " is too large");
}

std::int64_t checked_index(std::int64_t index, std::int64_t size) {
  if (index < -size || index >= size) {
    throw Error("index " + std::to_string(index) + " is outside an axis of size " + std::to_string(size));
  }
  return index < 0 ? index + size : index;
}

std::vector<std::int64_t> element_positions(const Dims& dims, const Tensor& indices, std::int64_t axis) {
  if (indices.rank() != dims.size()) {
    throw Error("indices " + to_string(indices.dims()) + " do not have the rank of data " + to_string(dims));
  }
  const std::size_t along = normalize_axis(axis, dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i != along && indices.dim(i) > dims[i]) {
      throw Error("indices " + to_string(indices.dims()) + " are larger than data " + to_string(dims));
    }
  }
  require_computable(indices.dims());
  const std::vector<std::int64_t> strides = strides_of(dims);
  std::vector<std::int64_t> result = elements<std::int64_t>(indices);
  std::size_t at = 0;
  for (IndexCounter counter(indices.dims()); counter.valid(); counter.next(), ++at) {
    std::int64_t position = checked_index(result[at], dims[along]) * strides[along];
    for (std::size_t i = 0; i < dims.size(); ++i) position += i == along ? 0 : counter.index()[i] * strides[i];
    result[at] = position;
  }
  return result;
}

std::vector<std::int64_t> tuple_positions(const Dims& dims, const Tensor& indices, std::size_t batch) {
  const auto length = static_cast<std::size_t>(indices.dims().back());
  const std::vector<std::int64_t> strides = strides_of(dims);
  const std::vector<std::int64_t> numbers = elements<std::int64_t>(indices);
  std::vector<std::int64_t> result;
  Dims tuples(indices.dims().begin(), indices.dims().end() - 1);
  require_computable(tuples);
  for (IndexCounter counter(std::move(tuples)); counter.valid(); counter.next()) {
    std::int64_t position = 0;
    const std::size_t first = result.size() * length;
    for (std::size_t i = 0; i < batch; ++i) position += counter.index()[i] * strides[i];
    for (std::size_t i = 0; i < length; ++i) {
      position += checked_index(numbers[first + i], dims[batch + i]) * strides[batch + i];
    }
    result.push_back(position);
  }
  return result;
}

}  // namespace finity
