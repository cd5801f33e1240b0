#include "program/draws.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/rng.h"
#include "tensor/convert.h"

namespace finity {

namespace {

struct DrawName {
  std::string_view name;
  Draw::Kind kind;
  std::size_t least, most;  // numbers in the brackets
};
constexpr std::array<DrawName, 10> kDraws = {{
    {"zeros", Draw::Kind::zeros, 0, 0},
    {"constant", Draw::Kind::constant, 1, 1},
    {"uniform", Draw::Kind::uniform, 2, 2},
    {"normal", Draw::Kind::normal, 1, 2},
    {"truncated_normal", Draw::Kind::truncated_normal, 1, 2},
    {"bernoulli", Draw::Kind::bernoulli, 1, 1},
    {"integers", Draw::Kind::integers, 2, 2},
    {"one_hot", Draw::Kind::one_hot, 0, 0},
    {"xavier_uniform", Draw::Kind::xavier_uniform, 0, 0},
    {"linear_default", Draw::Kind::linear_default, 0, 1},
}};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<double> numbers_in(std::string_view text, std::string_view whole) {
  std::vector<double> numbers;
  while (!trimmed(text).empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = trimmed(text.substr(0, comma));
    double number = 0;
    const auto [end, failure] = std::from_chars(one.data(), one.data() + one.size(), number);
    if (failure != std::errc() || end != one.data() + one.size() || !std::isfinite(number)) {
      throw Error("'" + std::string(whole) + "': '" + std::string(one) + "' is not a number");
    }
    numbers.push_back(number);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return numbers;
}

void require_sense(const Draw& draw, std::string_view text) {
  const bool has_order = draw.kind == Draw::Kind::uniform || draw.kind == Draw::Kind::integers;
  if (has_order && draw.a >= draw.b) throw Error("'" + std::string(text) + "': the range is empty");
  const bool normal = draw.kind == Draw::Kind::normal || draw.kind == Draw::Kind::truncated_normal;
  if (normal && draw.b < 0) throw Error("'" + std::string(text) + "': a deviation is not negative");
  if (draw.kind == Draw::Kind::bernoulli && (draw.a < 0 || draw.a > 1)) {
    throw Error("'" + std::string(text) + "': a probability is between 0 and 1");
  }
}

// Inputs and outputs of a layer: a matrix [in, out], a kernel [out, in, ...].
std::pair<double, double> fans(const Dims& dims) {
  if (dims.empty()) return {1, 1};
  if (dims.size() == 1) return {static_cast<double>(dims[0]), static_cast<double>(dims[0])};
  if (dims.size() == 2) return {static_cast<double>(dims[0]), static_cast<double>(dims[1])};
  const auto window = static_cast<double>(element_count(std::span(dims).subspan(2)));
  return {static_cast<double>(dims[1]) * window, static_cast<double>(dims[0]) * window};
}

double truncated(Rng& rng) {
  for (;;) {
    const double x = rng.normal();
    if (std::abs(x) <= 2) return x;
  }
}

double one_number(const Draw& draw, double reach, Rng& rng) {
  switch (draw.kind) {
    case Draw::Kind::zeros:
    case Draw::Kind::one_hot: return 0;  // the ones are set afterwards
    case Draw::Kind::constant: return draw.a;
    case Draw::Kind::uniform: return rng.uniform(draw.a, draw.b);
    case Draw::Kind::normal: return draw.a + draw.b * rng.normal();
    case Draw::Kind::truncated_normal: return draw.a + draw.b * truncated(rng);
    case Draw::Kind::bernoulli: return rng.uniform() < draw.a ? 1 : 0;
    case Draw::Kind::integers:
      return draw.a + static_cast<double>(rng.below(static_cast<std::uint64_t>(draw.b - draw.a)));
    case Draw::Kind::xavier_uniform:
    case Draw::Kind::linear_default: return rng.uniform(-reach, reach);
  }
  return 0;
}

void set_ones(std::vector<double>& numbers, const Dims& dims, Rng& rng) {
  const auto width = static_cast<std::size_t>(dims.empty() ? 1 : dims.back());
  for (std::size_t row = 0; row + width <= numbers.size() && width > 0; row += width) {
    numbers[row + static_cast<std::size_t>(rng.below(width))] = 1;
  }
}

// Whole numbers have no slope to move them by, so rows of one and the same number (nothing but padding) are put among
// the last of those that were drawn.
void add_uniform_rows(const ProgramInput& input, Tensor& samples) {
  constexpr std::int64_t kMost = 16;
  if (is_float(samples.dtype()) || input.label || !input.range->bounded()) return;
  const std::int64_t count = samples.dim(0), width = samples.size() / std::max<std::int64_t>(count, 1);
  const auto values = static_cast<std::int64_t>(input.range->hi - input.range->lo) + 1;
  std::vector<double> numbers = elements<double>(samples);
  for (std::int64_t k = 0; k < std::min({kMost, values, count / 2}); ++k) {
    const auto from = numbers.end() - static_cast<std::ptrdiff_t>((k + 1) * width);
    std::fill(from, from + static_cast<std::ptrdiff_t>(width), input.range->lo + static_cast<double>(k));
  }
  samples = from_elements<double>(samples.dtype(), samples.dims(), numbers);
}

}  // namespace

Draw parse_draw(std::string_view text) {
  const std::string_view whole = trimmed(text);
  const std::size_t open = std::min(whole.find('('), whole.size());
  const auto found = std::ranges::find(kDraws, trimmed(whole.substr(0, open)), &DrawName::name);
  if (found == kDraws.end()) {
    throw Error(
        "'" + std::string(text) +
        "' is none of zeros, constant(x), uniform(a,b), normal(mean,deviation), truncated_normal(mean,deviation), "
        "bernoulli(p), integers(a,b), one_hot, xavier_uniform, linear_default");
  }
  std::vector<double> numbers;
  if (open < whole.size()) {
    if (whole.back() != ')') throw Error("'" + std::string(text) + "': a bracket is not closed");
    numbers = numbers_in(whole.substr(open + 1, whole.size() - open - 2), whole);
  }
  if (numbers.size() < found->least || numbers.size() > found->most) {
    throw Error("'" + std::string(text) + "': " + std::string(found->name) + " takes " + std::to_string(found->most) +
                (found->most == 1 ? " number" : " numbers"));
  }
  Draw draw = {.kind = found->kind};
  const bool normal = found->kind == Draw::Kind::normal || found->kind == Draw::Kind::truncated_normal;
  if (normal && numbers.size() == 1) numbers.insert(numbers.begin(), 0.0);
  if (found->kind == Draw::Kind::linear_default && !numbers.empty()) draw.fan_in = std::llround(numbers[0]);
  else if (!numbers.empty()) draw.a = numbers[0];
  if (numbers.size() > 1) draw.b = numbers[1];
  require_sense(draw, text);
  return draw;
}

std::string to_string(const Draw& draw) {
  const auto found = std::ranges::find(kDraws, draw.kind, &DrawName::kind);
  std::string text(found->name);
  if (draw.kind == Draw::Kind::linear_default && draw.fan_in > 0) return text + "(" + std::to_string(draw.fan_in) + ")";
  if (found->most == 0 || draw.kind == Draw::Kind::linear_default) return text;
  char numbers[80];
  if (found->most == 1) std::snprintf(numbers, sizeof numbers, "(%.17g)", draw.a);
  else std::snprintf(numbers, sizeof numbers, "(%.17g,%.17g)", draw.a, draw.b);
  return text + numbers;
}

Tensor drawn(const Draw& draw, DType dtype, const Dims& dims, std::uint64_t seed) {
  double reach = 0;
  const auto [in, out] = fans(dims);
  if (draw.kind == Draw::Kind::xavier_uniform) reach = std::sqrt(6 / (in + out));
  if (draw.kind == Draw::Kind::linear_default) {
    reach = 1 / std::sqrt(draw.fan_in > 0 ? static_cast<double>(draw.fan_in) : in);
  }
  Rng rng(seed);
  std::vector<double> numbers(static_cast<std::size_t>(element_count(dims)));
  for (double& number : numbers) number = one_number(draw, reach, rng);
  if (draw.kind == Draw::Kind::one_hot) set_ones(numbers, dims, rng);
  return from_elements<double>(dtype, dims, numbers);
}

std::uint64_t seed_for(std::uint64_t seed, std::string_view purpose, std::uint64_t step) {
  std::uint64_t hash = 0xcbf29ce484222325 ^ (seed * 0x9e3779b97f4a7c15);
  for (const char c : purpose) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return (hash ^ (step + 1)) * 0x100000001b3;
}

Tensor initial_weight(const Program& program, const ProgramWeight& weight, std::uint64_t seed) {
  if (!weight.start.empty()) return weight.start;
  const Type& type = program.types[weight.id];
  if (weight.init) return drawn(*weight.init, type.dtype, *type.dims(), seed_for(seed, "weight/" + weight.name));
  return program.graph->value(weight.id).constant->load();
}

Program with_drawn_samples(Program program, std::uint64_t seed) {
  const auto is_drawn = [](const ProgramInput& input) { return input.draw && input.each_step && input.batched; };
  const auto is_data = [](const ProgramInput& input) { return !input.draw && input.batched; };
  if (program.batch < 2 || std::ranges::any_of(program.inputs, is_data)) return program;
  // Enough that labels and extremes are met, and no more than some megabytes.
  constexpr std::int64_t kSamples = 1024, kBatches = 8, kMostElements = std::int64_t{1} << 23;
  std::int64_t widest = 1;
  for (const ProgramInput& input : program.inputs) {
    if (!is_drawn(input)) continue;
    widest = std::max(widest, element_count(*program.types[input.id].dims()) / program.batch);
  }
  const std::int64_t wanted = std::max(kSamples, kBatches * program.batch);
  const std::int64_t count = std::max(2 * program.batch, std::min(wanted, kMostElements / widest));
  for (ProgramInput& input : program.inputs) {
    if (!is_drawn(input)) continue;
    const Type& type = program.types[input.id];
    Dims dims = *type.dims();
    dims.front() = count;
    input.data = drawn(*input.draw, type.dtype, dims, seed_for(seed, "samples/" + input.name));
    if (input.draw->kind != Draw::Kind::one_hot) add_uniform_rows(input, input.data);
    input.draw.reset();
  }
  return program;
}

}  // namespace finity
