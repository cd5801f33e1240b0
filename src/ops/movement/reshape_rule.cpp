#include "ops/movement/reshape_rule.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/shared/shapes.h"

namespace finity {

namespace {

// above / below after the symbols they share are cancelled.
struct Quotient {
  Shape above = {};
  Shape below = {};

  void cancel() {
    std::erase_if(below, [&](const Dim& dim) {
      if (!dim.symbol.valid() || dim.known()) return false;
      const auto equal = std::ranges::find(above, dim);
      if (equal == above.end()) return false;
      above.erase(equal);
      return true;
    });
  }
  // Bounds when it does not follow; throws Error when it is not whole.
  Dim value() {
    cancel();
    const Type over = Type::tensor(DType::undefined, above), under = Type::tensor(DType::undefined, below);
    const std::int64_t rows = std::max<std::int64_t>(under.elements().least_size(), 1);
    const Dim bounds = Dim::between(0, over.elements().most_size() / rows);
    Shape symbols;
    std::ranges::copy_if(above, std::back_inserter(symbols), [](const Dim& dim) { return !dim.known(); });
    std::erase_if(above, [](const Dim& dim) { return !dim.known(); });
    const std::int64_t numerator = product(above).size;
    const Dim denominator = product(below);
    if (!denominator.known()) return bounds;
    if (denominator.size == 0 || numerator % denominator.size != 0) {
      if (!symbols.empty()) return bounds;
      throw Error("cannot reshape " + std::to_string(numerator) + " elements into rows of " +
                  std::to_string(denominator.size));
    }
    symbols.push_back(Dim::of(numerator / denominator.size));
    return product(symbols);
  }
};

class ReshapeRule {
 public:
  ReshapeRule(const Type& in, bool keep_zero)
      : in_(in.ranked ? &in.shape : nullptr), count_(in.elements()), keep_zero_(keep_zero) {
    if (in_ != nullptr) rest_.above = *in_;
  }

  Shape resolve(const Entries& wanted) {
    for (const Entry& entry : wanted) add(entry);
    if (inferred_ > 1) throw Error("more than one -1 in the new shape");
    if (in_ != nullptr && holes_.size() <= 1) {
      remove_copied();
      // Whether it is -1 or a number not known here, it is what the other sizes leave over.
      if (holes_.size() == 1) result_[holes_[0]] = rest_.value();
      else check_count();
    }
    bound_by_count();
    return result_;
  }

 private:
  // No size is larger than the number of elements, nor 0 where there are some.
  void bound_by_count() {
    for (Dim& dim : result_) {
      if (dim.known()) continue;
      if (dim.most_size() > count_.most_size() || dim.most == Dim::kNoMost) dim.most = count_.most_size();
      if (count_.least_size() >= 1) dim.least = std::max<std::int64_t>(dim.least, 1);
    }
  }
  void add(const Entry& entry) {
    const std::size_t axis = result_.size();
    // 0 and -1 have a meaning of their own.
    const bool size = entry.number ? *entry.number >= 0 : entry.dim.symbol.valid() || entry.dim.lowest() >= 1;
    result_.push_back(size ? entry.dim : Dim{});
    if (entry.number == -1) {
      ++inferred_;
      holes_.push_back(axis);
    } else if (entry.number && *entry.number < 0) {
      throw Error("size " + std::to_string(*entry.number) + " in the new shape");
    } else if (entry.number == 0 && !keep_zero_) {
      copy_axis(axis);
    } else if (!entry.number && !entry.dim.symbol.valid()) {
      holes_.push_back(axis);
    } else {
      rest_.below.push_back(entry.dim);
    }
  }
  void copy_axis(std::size_t axis) {
    if (in_ == nullptr) {
      result_[axis] = {};
      return;
    }
    if (axis >= in_->size()) throw Error("0 in the new shape at axis " + std::to_string(axis) + ", which data lacks");
    result_[axis] = (*in_)[axis];
    copied_.push_back(axis);
  }
  void remove_copied() {
    for (std::size_t i = copied_.size(); i-- > 0;) {
      rest_.above.erase(rest_.above.begin() + static_cast<std::ptrdiff_t>(copied_[i]));
    }
  }
  void check_count() {
    rest_.cancel();
    const Dim have = product(rest_.above);
    const Dim want = product(rest_.below);
    if (have.known() && want.known() && have.size != want.size) {
      throw Error("cannot reshape " + std::to_string(have.size) + " elements to " + std::to_string(want.size));
    }
  }

  const Shape* in_;
  Dim count_;
  bool keep_zero_;
  Shape result_;
  Quotient rest_;
  std::vector<std::size_t> holes_, copied_;
  int inferred_ = 0;
};

}  // namespace

Shape reshaped_shape(const Type& in, const Entries& wanted, bool keep_zero) {
  return ReshapeRule(in, keep_zero).resolve(wanted);
}

}  // namespace finity
