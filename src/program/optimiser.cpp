#include "program/optimiser.h"

#include <algorithm>
#include <cmath>

namespace finity {

namespace {

template <class T>
void keep(std::vector<T>& numbers, std::size_t size, T start = 0) {
  if (numbers.size() != size) numbers.assign(size, start);
}

template <class T>
void sgd(const Optimiser& o, T rate, std::span<T> w, std::span<const T> g, OptimiserState<T>& state) {
  const auto decay = static_cast<T>(o.weight_decay), momentum = static_cast<T>(o.momentum);
  if (o.kind == Optimiser::Kind::sgd && o.momentum == 0) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * (g[i] + decay * w[i]);
    return;
  }
  keep(state.first, w.size());
  const bool nesterov = o.kind == Optimiser::Kind::nesterov;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const T slope = g[i] + decay * w[i];
    T& speed = state.first[i];
    speed = momentum * speed + slope;
    w[i] -= rate * (nesterov ? slope + momentum * speed : speed);
  }
}

template <class T>
void adagrad(const Optimiser& o, T rate, std::span<T> w, std::span<const T> g, OptimiserState<T>& state) {
  keep(state.first, w.size(), static_cast<T>(o.accumulator));
  const auto decay = static_cast<T>(o.weight_decay), epsilon = static_cast<T>(o.epsilon);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const T slope = g[i] + decay * w[i];
    state.first[i] += slope * slope;
    w[i] -= rate * slope / (std::sqrt(state.first[i]) + epsilon);
  }
}

template <class T>
void adadelta(const Optimiser& o, T rate, std::span<T> w, std::span<const T> g, OptimiserState<T>& state) {
  keep(state.first, w.size());
  keep(state.second, w.size());
  const auto rho = static_cast<T>(o.decay), epsilon = static_cast<T>(o.epsilon);
  for (std::size_t i = 0; i < w.size(); ++i) {
    state.first[i] = rho * state.first[i] + (1 - rho) * g[i] * g[i];
    const T move = std::sqrt((state.second[i] + epsilon) / (state.first[i] + epsilon)) * g[i];
    state.second[i] = rho * state.second[i] + (1 - rho) * move * move;
    w[i] -= rate * move;
  }
}

template <class T>
void rmsprop(const Optimiser& o, T rate, std::span<T> w, std::span<const T> g, OptimiserState<T>& state) {
  // TensorFlow 1 starts the squares at one.
  keep(state.first, w.size(), o.epsilon_inside ? T(1) : T(0));
  if (o.centred) keep(state.second, w.size());
  if (o.momentum > 0) keep(state.third, w.size());
  const auto rho = static_cast<T>(o.decay), epsilon = static_cast<T>(o.epsilon), momentum = static_cast<T>(o.momentum);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const T slope = g[i] + static_cast<T>(o.weight_decay) * w[i];
    state.first[i] = rho * state.first[i] + (1 - rho) * slope * slope;
    T square = state.first[i];
    if (o.centred) {
      state.second[i] = rho * state.second[i] + (1 - rho) * slope;
      square -= state.second[i] * state.second[i];
    }
    const T root = o.epsilon_inside ? std::sqrt(square + epsilon) : std::sqrt(square) + epsilon;
    T move = slope / root;
    if (o.momentum > 0) move = state.third[i] = momentum * state.third[i] + move;
    w[i] -= rate * move;
  }
}

template <class T>
void adam(const Optimiser& o, T rate, std::int64_t step, std::span<T> w, std::span<const T> g,
          OptimiserState<T>& state) {
  keep(state.first, w.size());
  keep(state.second, w.size());
  if (o.amsgrad) keep(state.third, w.size());
  const auto t = static_cast<double>(step);
  const auto beta1 = static_cast<T>(o.beta1), beta2 = static_cast<T>(o.beta2), epsilon = static_cast<T>(o.epsilon);
  const auto first_share = static_cast<T>(1 - std::pow(o.beta1, t));
  const auto second_share = static_cast<T>(std::sqrt(1 - std::pow(o.beta2, t)));
  const bool apart = o.kind == Optimiser::Kind::adamw;  // the decay is no part of the gradient
  const auto decay = static_cast<T>(o.weight_decay);
  const bool nadam = o.kind == Optimiser::Kind::nadam;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const T slope = apart ? g[i] : g[i] + decay * w[i];
    if (apart) w[i] -= rate * decay * w[i];
    T& mean = state.first[i];
    T& square = state.second[i];
    mean = beta1 * mean + (1 - beta1) * slope;
    square = beta2 * square + (1 - beta2) * slope * slope;
    if (o.amsgrad) state.third[i] = std::max(state.third[i], square);
    const T root = std::sqrt(o.amsgrad ? state.third[i] : square) / second_share + epsilon;
    const T ahead = nadam ? beta1 * mean + (1 - beta1) * slope : mean;
    w[i] -= rate / first_share * ahead / root;
  }
}

template <class T>
void adamax(const Optimiser& o, T rate, std::int64_t step, std::span<T> w, std::span<const T> g,
            OptimiserState<T>& state) {
  keep(state.first, w.size());
  keep(state.second, w.size());
  const auto beta1 = static_cast<T>(o.beta1), beta2 = static_cast<T>(o.beta2), epsilon = static_cast<T>(o.epsilon);
  const auto share = static_cast<T>(1 - std::pow(o.beta1, static_cast<double>(step)));
  for (std::size_t i = 0; i < w.size(); ++i) {
    const T slope = g[i] + static_cast<T>(o.weight_decay) * w[i];
    state.first[i] = beta1 * state.first[i] + (1 - beta1) * slope;
    state.second[i] = std::max(beta2 * state.second[i], std::abs(slope) + epsilon);
    w[i] -= rate / share * state.first[i] / state.second[i];
  }
}

// Follow the regularised leader (McMahan et al. 2013), as TensorFlow computes it: `linear` is the sum of all gradients
// less what pulls the weight to where it was, and the weight is where that, l1 and l2 are in balance.
template <class T>
void ftrl(const Optimiser& o, T rate, std::span<T> w, std::span<const T> g, OptimiserState<T>& state) {
  keep(state.first, w.size(), static_cast<T>(o.accumulator));
  keep(state.second, w.size());
  const auto l1 = static_cast<T>(o.l1), l2 = static_cast<T>(o.l2), shrinkage = static_cast<T>(o.shrinkage);
  const auto power = static_cast<T>(o.power), decay = static_cast<T>(o.weight_decay);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const T slope = g[i] + decay * w[i];
    T& squares = state.first[i];
    T& linear = state.second[i];
    const T before = std::pow(squares, power);
    squares += slope * slope;
    const T after = std::pow(squares, power);
    linear += slope + 2 * shrinkage * w[i] - (after - before) / rate * w[i];
    const T balance = std::copysign(l1, linear) - linear;
    // What is not a number is not small.
    w[i] = std::abs(linear) <= l1 ? T(0) : balance / (after / rate + 2 * l2);
  }
}

}  // namespace

template <class T>
void optimiser_step(const Optimiser& o, std::int64_t step, std::span<T> w, std::span<const T> g,
                    OptimiserState<T>& state) {
  const std::int64_t decays = (step - 1) / std::max<std::int64_t>(o.rate_decay_steps, 1);
  const auto rate = static_cast<T>(o.rate * std::pow(o.rate_decay, static_cast<double>(decays)));
  switch (o.kind) {
    case Optimiser::Kind::sgd:
    case Optimiser::Kind::momentum:
    case Optimiser::Kind::nesterov: return sgd(o, rate, w, g, state);
    case Optimiser::Kind::adagrad: return adagrad(o, rate, w, g, state);
    case Optimiser::Kind::adadelta: return adadelta(o, rate, w, g, state);
    case Optimiser::Kind::rmsprop: return rmsprop(o, rate, w, g, state);
    case Optimiser::Kind::adam:
    case Optimiser::Kind::adamw:
    case Optimiser::Kind::nadam: return adam(o, rate, step, w, g, state);
    case Optimiser::Kind::adamax: return adamax(o, rate, step, w, g, state);
    case Optimiser::Kind::ftrl: return ftrl(o, rate, w, g, state);
  }
}

template void optimiser_step<float>(const Optimiser&, std::int64_t, std::span<float>, std::span<const float>,
                                    OptimiserState<float>&);
template void optimiser_step<double>(const Optimiser&, std::int64_t, std::span<double>, std::span<const double>,
                                     OptimiserState<double>&);

}  // namespace finity
