#include "muffin/data.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace finity::muffin {

std::span<const DataSet> data_sets() {
  static const std::vector<DataSet> all = {
      {.name = "cifar-10", .sample = {32, 32, 3}, .classes = 10},
      {.name = "mnist", .sample = {28, 28, 1}, .classes = 10},
      {.name = "fashion-mnist", .sample = {28, 28, 1}, .classes = 10},
      {.name = "imagenet", .sample = {64, 64, 3}, .classes = 1000},
      {.name = "sine-wave", .sample = {49, 1}},
      {.name = "price", .sample = {1, 240}},
      {.name = "imagenet-full", .sample = {224, 224, 3}, .classes = 1000, .published = false},
      {.name = "words", .sample = {8}, .classes = 4, .words = true, .published = false},
      {.name = "table", .sample = {12}, .classes = 3, .published = false}};
  return all;
}

const DataSet& data_set(std::string_view name) {
  std::string known;
  for (const DataSet& data : data_sets()) {
    if (data.name == name) return data;
    known += (known.empty() ? "" : ", ") + std::string(data.name);
  }
  throw Error("there is no data set '" + std::string(name) + "'; there are " + known);
}

Tensor draw_samples(const DataSet& data, std::int64_t batch, Rng& rng) {
  Dims dims = data.sample;
  dims.insert(dims.begin(), batch);
  const auto count = static_cast<std::size_t>(element_count(dims));
  if (data.words) {
    std::vector<std::int64_t> words(count);
    for (std::int64_t& word : words) word = static_cast<std::int64_t>(rng.below(1001));
    return Tensor::of<std::int64_t>(DType::int64, dims, words);
  }
  std::vector<float> values(count);
  const double phase = rng.uniform(0, 6);
  double price = rng.uniform(0.3, 0.7);
  for (std::size_t i = 0; i < count; ++i) {
    if (data.name == "sine-wave") values[i] = static_cast<float>(std::sin(phase + 0.1 * static_cast<double>(i)));
    else if (data.name == "price") values[i] = static_cast<float>(price += 0.01 * rng.normal());
    else values[i] = static_cast<float>(rng.uniform());
  }
  return Tensor::of<float>(DType::float32, dims, values);
}

}  // namespace finity::muffin
