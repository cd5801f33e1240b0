// What flows along an edge when a graph runs: a tensor, a sequence, or nothing
// (an omitted input, an empty optional).
#pragma once

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

struct Datum;
using Sequence = std::vector<Datum>;

struct Datum {
  std::variant<std::monostate, Tensor, std::shared_ptr<const Sequence>> content;

  Datum() = default;
  Datum(Tensor tensor) : content(std::move(tensor)) {}  // NOLINT(google-explicit-constructor): a tensor is a datum
  static Datum sequence(Sequence items) {
    Datum result;
    result.content = std::make_shared<const Sequence>(std::move(items));
    return result;
  }

  bool present() const { return !std::holds_alternative<std::monostate>(content); }
  const Tensor* tensor() const { return std::get_if<Tensor>(&content); }
  const Sequence* sequence() const {
    const auto* items = std::get_if<std::shared_ptr<const Sequence>>(&content);
    return items == nullptr ? nullptr : items->get();
  }
};

}  // namespace finity
