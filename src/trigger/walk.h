// One walk from a start towards the unsafe values: steps along the gradient of the distance, chosen for the geometry.
#pragma once

#include <functional>
#include <optional>

#include "trigger/objective.h"

namespace finity {

class Walk {
 public:
  // `space` says what each element may be.
  Walk(const CheckedGraph& model, const Premises& space, Objective& objective, Drawn start, Rng& rng, Worker* torch);

  // `visit` is told of every point worth a real run; `over` ends the walk.
  void run(const std::function<void(const Drawn&)>& visit, const std::function<bool()>& over);

  double closest() const { return closest_; }
  const Drawn& end() const { return end_; }  // where it stopped

 private:
  struct Point {
    Drawn drawn = {};
    Evaluation at = {};
  };

  std::optional<Point> measured(Drawn drawn);
  std::optional<Point> moved(const Point& from, const Numbers& wished);
  // Every element to the end of its range that the gradient points to.
  Numbers to_corner(const Point& from) const;
  // Every element by the same share of its range against its gradient's sign.
  Numbers by_signs(const Point& from, double share) const;
  // As far along the gradient as would reach 0 if the distance were linear, times `factor`.
  Numbers linearly(const Point& from, double factor) const;
  // The same with the one element that must change least.
  Numbers by_one_element(const Point& from) const;
  const Tensor& tensor_of(const Drawn& drawn, ValueId id) const;
  std::vector<double> elements_of(const Drawn& drawn, ValueId id) const;
  double reach(ValueId id, std::size_t i, double x) const;

  const CheckedGraph& model_;
  const Premises& space_;
  Objective& objective_;
  Worker* torch_;
  Drawn start_;
  Drawn end_ = {};
  Rng& rng_;
  std::map<ValueId, Box> boxes_;
  double closest_;
};

}  // namespace finity
