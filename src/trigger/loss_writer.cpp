#include "trigger/loss_writer.h"

#include <algorithm>
#include <cmath>

#include "tensor/convert.h"

namespace finity {

ValueId LossWriter::number(double x) {
  const double one[] = {x};
  return writer_.constant(from_elements<double>(DType::float64, {}, one));
}

ValueId LossWriter::as_double(ValueId id) {
  if (writer_.type(id).dtype == DType::float64) return id;
  Attrs attrs;
  attrs.set("to", static_cast<std::int64_t>(DType::float64));
  return writer_.add("Cast", {id}, std::move(attrs));
}

ValueId LossWriter::distances(ValueId quantity, const UnsafeSet& set) {
  const ValueId x = as_double(quantity);
  ValueId nearest;
  for (const Unsafe& part : set) {
    const bool below = !std::isinf(part.lo), above = !std::isinf(part.hi);
    ValueId away;
    if (below && above && part.lo == part.hi) away = writer_.add("Abs", {writer_.add("Sub", {x, number(part.lo)})});
    else if (below && above)
      away = writer_.add("Max", {writer_.add("Sub", {number(part.lo), x}), writer_.add("Sub", {x, number(part.hi)})});
    else if (below) away = writer_.add("Sub", {number(part.lo), x});
    else away = writer_.add("Sub", {x, number(part.hi)});
    nearest = nearest.valid() ? writer_.add("Min", {nearest, away}) : away;
  }
  return nearest;
}

ValueId LossWriter::room(ValueId magnitudes, double limit) {
  return writer_.add("Sub", {number(std::log(limit)), logarithm(magnitudes)});
}

ValueId LossWriter::logarithm(ValueId id) {
  constexpr double kTiny = 1e-300;
  return writer_.add("Log", {writer_.add("Max", {id, number(kTiny)})});
}

ValueId LossWriter::over_all(std::string_view reduction, ValueId id) {
  Attrs attrs;
  attrs.set("keepdims", std::int64_t{0});
  return writer_.add(reduction, {id}, std::move(attrs));
}

bool only_infinities(const UnsafeSet& set) {
  return std::ranges::all_of(set, [](const Unsafe& part) { return std::isinf(part.lo) && part.lo == part.hi; });
}

}  // namespace finity
