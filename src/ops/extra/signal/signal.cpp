// Fourier transforms, window functions and the mel matrix.
#include <cmath>
#include <complex>
#include <numbers>
#include <optional>
#include <string>

#include "base/error.h"
#include "ops/extra/signal/signal_gradient.h"
#include "ops/extra/signal/signal_range.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

using Complex = std::complex<double>;

constexpr std::string_view kDftFreedom = "sums term by term in double, rounds once";
// A transform of n points is computed from its definition, in n * n steps: longer ones would not end.
constexpr std::int64_t kMaxPoints = std::int64_t{1} << 24;

std::int64_t scalar_in(const EvalCall& call, std::size_t input, std::string_view what) {
  if (call.in(input).size() != 1) throw Error(std::string(what) + " is not a scalar");
  return element_as_int(call.in(input), 0);
}

// The result, checked before anything of its size is allocated.
Dims computable(Dims dims) {
  if (element_count(dims) > Tensor::kMaxBytes / 16) throw Error("tensor " + to_string(dims) + " is too large");
  return dims;
}

void check_points(std::int64_t points) {
  if (points < 1 || points > kMaxPoints) throw Error("a transform of " + std::to_string(points) + " points");
}

// The operand as a size, when it is known (perhaps a symbol).
Dim size_value(const InferCall& call, std::size_t input) {
  if (const auto exact = call.ints(input)) {
    if (exact->size() == 1 && exact->front() < 0)
      throw Error("size " + std::to_string(exact->front()) + " is negative");
  }
  const std::optional<Shape> elements = call.shape_value(input);
  return elements && elements->size() == 1 ? elements->front() : Dim{};
}

std::int64_t one_sided(std::int64_t points) { return points / 2 + 1; }
Dim one_sided(const Dim& points) { return points.known() ? Dim::of(one_sided(points.size)) : Dim{}; }

// e^(-2 pi i k / n) for k < n, or with a plus for the inverse. Quarter turns are exact.
std::vector<Complex> unit_roots(std::int64_t points, bool inverse) {
  check_points(points);
  constexpr Complex kQuarters[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  std::vector<Complex> roots;
  roots.reserve(static_cast<std::size_t>(points));
  for (std::int64_t k = 0; k < points; ++k) {
    const bool quarter = 4 * k % points == 0;
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(points);
    const Complex root = quarter ? kQuarters[4 * k / points] : std::polar(1.0, angle);
    roots.push_back(inverse ? root : std::conj(root));
  }
  return roots;
}

// result[k] = sum of signal[t] * roots[k t]; a shorter signal counts as padded with zeros, a longer one is cut.
void transform(std::span<const Complex> signal, const std::vector<Complex>& roots, std::span<Complex> result) {
  const std::size_t terms = std::min(signal.size(), roots.size());
  for (std::size_t k = 0; k < result.size(); ++k) {
    Complex sum = 0.0;
    std::size_t root = 0;
    for (std::size_t t = 0; t < terms; ++t) {
      sum += Complex(signal[t].real() * roots[root].real() - signal[t].imag() * roots[root].imag(),
                     signal[t].real() * roots[root].imag() + signal[t].imag() * roots[root].real());
      root += k;
      if (root >= roots.size()) root -= roots.size();
    }
    result[k] = sum;
  }
}

// ---- DFT ---------------------------------------------------------------------

struct DftMode {
  bool inverse = false;
  bool onesided = false;

  explicit DftMode(const Call& call) : inverse(call.integer("inverse") != 0), onesided(call.integer("onesided") != 0) {}
  // From half a spectrum to a real signal.
  bool to_real() const { return inverse && onesided; }
  bool to_half() const { return !inverse && onesided; }
};

std::size_t dft_axis(std::int64_t axis, std::size_t rank) {
  if (rank < 2) throw Error("input has rank " + std::to_string(rank) + ", expected at least 2");
  const std::size_t result = normalize_axis(axis, rank);
  if (result + 1 == rank) throw Error("axis " + std::to_string(axis) + " is the one of real and imaginary parts");
  return result;
}

// nullopt: an input that is not known.
std::optional<std::int64_t> dft_axis_value(const InferCall& call) {
  if (call.version() < 20) return call.integer("axis", 1);
  if (!call.has_input(2)) return -2;
  const auto axis = call.ints(2);
  return axis && axis->size() == 1 ? std::optional(axis->front()) : std::nullopt;
}

std::int64_t default_points(const DftMode& mode, std::int64_t size) { return mode.to_real() ? 2 * (size - 1) : size; }

Dim dft_output_size(const InferCall& call, const DftMode& mode, const Dim& size) {
  Dim points;
  if (call.has_input(1)) points = size_value(call, 1);
  else if (!mode.to_real()) points = size;
  else if (size.size > 0) points = Dim::of(default_points(mode, size.size));
  return mode.to_half() ? one_sided(points) : points;
}

void infer_dft(InferCall& call) {
  if (!call.ranked(0)) return;
  const DftMode mode(call);
  Shape shape = call.shape(0);
  if (shape.size() < 2) throw Error("input has rank " + std::to_string(shape.size()) + ", expected at least 2");
  if (const std::optional<std::int64_t> axis = dft_axis_value(call)) {
    Dim& size = shape[dft_axis(*axis, shape.size())];
    size = dft_output_size(call, mode, size);
  } else {
    shape.assign(shape.size(), Dim{});
  }
  shape.back() = Dim::of(mode.to_real() ? 1 : 2);
  call.set_shape(0, std::move(shape));
}

std::vector<Complex> complex_signal(const Tensor& tensor) {
  const std::vector<double> numbers = elements<double>(tensor);
  const std::int64_t parts = tensor.dims().back();
  if (parts != 1 && parts != 2) throw Error("the last dimension is " + std::to_string(parts) + ", expected 1 or 2");
  std::vector<Complex> result(numbers.size() / static_cast<std::size_t>(parts));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = parts == 1 ? Complex(numbers[i]) : Complex(numbers[2 * i], numbers[2 * i + 1]);
  }
  return result;
}

// The other half of the spectrum of a real signal: conjugates in reverse order.
std::vector<Complex> mirrored(std::span<const Complex> half, std::size_t points) {
  std::vector<Complex> full(points);
  for (std::size_t k = 0; k < std::min(half.size(), points / 2 + 1); ++k) {
    full[k] = half[k];
    if (k > 0) full[points - k] = std::conj(half[k]);
  }
  return full;
}

std::vector<double> split_parts(std::span<const Complex> values, bool real_only) {
  std::vector<double> result;
  result.reserve(values.size() * (real_only ? 1 : 2));
  for (const Complex& value : values) {
    result.push_back(value.real());
    if (!real_only) result.push_back(value.imag());
  }
  return result;
}

std::int64_t dft_axis_value(const EvalCall& call) {
  if (call.version() < 20) return call.integer("axis", 1);
  return call.has_input(2) ? scalar_in(call, 2, "axis") : -2;
}

void eval_dft(EvalCall& call) {
  const DftMode mode(call);
  const Tensor& input = call.in(0);
  const std::size_t axis = dft_axis(dft_axis_value(call), input.rank());
  if (mode.to_half() && input.dims().back() == 2) throw Error("onesided needs a real input");
  const std::int64_t points =
      call.has_input(1) ? scalar_in(call, 1, "dft_length") : default_points(mode, input.dim(axis));
  const std::vector<Complex> roots = unit_roots(points, mode.inverse);
  const std::vector<Complex> signal = complex_signal(input);

  Dims dims = input.dims();
  dims.pop_back();
  const AxisView from(dims, axis);
  dims[axis] = mode.to_half() ? one_sided(points) : points;
  const AxisView to(dims, axis);
  std::vector<Complex> result(static_cast<std::size_t>(element_count(computable(dims))));
  std::vector<Complex> line(result.empty() ? 0 : static_cast<std::size_t>(from.length));
  std::vector<Complex> spectrum(static_cast<std::size_t>(to.length));
  for (std::int64_t o = 0; o < from.outer && !result.empty(); ++o) {
    for (std::int64_t i = 0; i < from.inner; ++i) {
      for (std::int64_t t = 0; t < from.length; ++t) line[static_cast<std::size_t>(t)] = signal[from.at(o, t, i)];
      transform(mode.to_real() ? mirrored(line, roots.size()) : line, roots, spectrum);
      const double scale = mode.inverse ? 1.0 / static_cast<double>(points) : 1.0;
      for (std::int64_t k = 0; k < to.length; ++k)
        result[to.at(o, k, i)] = spectrum[static_cast<std::size_t>(k)] * scale;
    }
  }
  dims.push_back(mode.to_real() ? 1 : 2);
  call.out(0, from_elements<double>(input.dtype(), std::move(dims), split_parts(result, mode.to_real())));
}

// ---- STFT --------------------------------------------------------------------

std::int64_t frame_count(std::int64_t samples, std::int64_t frame, std::int64_t step) {
  if (step < 1) throw Error("frame_step is " + std::to_string(step));
  if (frame > samples) {
    throw Error("a frame of " + std::to_string(frame) + " is longer than the signal of " + std::to_string(samples));
  }
  return (samples - frame) / step + 1;
}

void check_signal_rank(std::size_t rank) {
  if (rank != 2 && rank != 3) throw Error("signal has rank " + std::to_string(rank) + ", expected 3");
}

void check_window(std::int64_t window, std::int64_t frame) {
  if (window != frame) {
    throw Error("window has " + std::to_string(window) + " elements, frame_length is " + std::to_string(frame));
  }
}

void infer_stft(InferCall& call) {
  require_rank(call, 2, 1);
  if (!call.ranked(0)) return;
  check_signal_rank(call.rank(0));
  const Dim samples = call.shape(0)[1];
  Dim frame = call.has_input(3) ? size_value(call, 3) : Dim{};
  if (call.ranked(2)) {
    const Dim& window = call.shape(2)[0];
    if (window.known() && frame.known()) check_window(window.size, frame.size);
    if (!frame.known()) frame = window;
  } else if (!call.has_input(2) && !call.has_input(3)) {
    frame = samples;
  }
  const auto step = call.ints(1);
  Shape shape{call.shape(0)[0], Dim{}, call.integer("onesided") != 0 ? one_sided(frame) : frame, Dim::of(2)};
  if (samples.known() && frame.known() && step && step->size() == 1) {
    shape[1] = Dim::of(frame_count(samples.size, frame.size, step->front()));
  }
  call.set_shape(0, std::move(shape));
}

struct Frames {
  std::int64_t length = 0;
  std::int64_t step = 0;
  std::int64_t count = 0;
  std::vector<double> window;
};

Frames read_frames(const EvalCall& call) {
  const std::int64_t samples = call.in(0).dim(1);
  Frames frames;
  frames.length = call.has_input(3)   ? scalar_in(call, 3, "frame_length")
                  : call.has_input(2) ? call.in(2).size()
                                      : samples;
  check_points(frames.length);
  frames.step = scalar_in(call, 1, "frame_step");
  frames.count = frame_count(samples, frames.length, frames.step);
  frames.window.assign(static_cast<std::size_t>(frames.length), 1.0);
  if (call.has_input(2)) {
    check_window(call.in(2).size(), frames.length);
    frames.window = elements<double>(call.in(2));
  }
  return frames;
}

void eval_stft(EvalCall& call) {
  check_signal_rank(call.in(0).rank());
  const Tensor& input = call.in(0);
  const Frames frames = read_frames(call);
  const bool onesided = call.integer("onesided") != 0;
  const Dims as_column{input.dim(0), input.dim(1), input.rank() == 2 ? 1 : input.dim(2)};
  if (onesided && as_column[2] == 2) throw Error("onesided needs a real input");
  const std::vector<Complex> signal = complex_signal(input.reshaped(as_column));
  const std::vector<Complex> roots = unit_roots(frames.length, false);
  const std::int64_t bins = onesided ? one_sided(frames.length) : frames.length;
  Dims dims = computable({input.dim(0), frames.count, bins, 2});
  std::vector<Complex> spectra(static_cast<std::size_t>(element_count(dims) / 2));
  std::vector<Complex> frame(roots.size());
  for (std::int64_t f = 0; f < input.dim(0) * frames.count; ++f) {
    const std::int64_t first = f / frames.count * input.dim(1) + f % frames.count * frames.step;
    for (std::size_t t = 0; t < frame.size(); ++t)
      frame[t] = signal[static_cast<std::size_t>(first) + t] * frames.window[t];
    transform(frame, roots,
              std::span(spectra).subspan(static_cast<std::size_t>(f * bins), static_cast<std::size_t>(bins)));
  }
  call.out(0, from_elements<double>(input.dtype(), std::move(dims), split_parts(spectra, false)));
}

// ---- windows -----------------------------------------------------------------

DType output_datatype(const Call& call) {
  const auto dtype = dtype_from_code(call.integer("output_datatype"));
  if (!dtype || (!is_float(*dtype) && !is_int(*dtype)))
    throw Error("attribute 'output_datatype' is not a number's dtype");
  return *dtype;
}

void infer_window(InferCall& call) {
  call.set_dtype(0, output_datatype(call));
  call.set_shape(0, {size_value(call, 0)});
}

// A sum of cosines: a0 - a1 cos(x) + a2 cos(2x), with x from 0 to 2 pi.
struct Cosines {
  double a0 = 0;
  double a1 = 0;
  double a2 = 0;
};
constexpr Cosines kHann{0.5, 0.5, 0.0};
constexpr Cosines kHamming{25.0 / 46.0, 21.0 / 46.0, 0.0};
constexpr Cosines kBlackman{0.42, 0.5, 0.08};

template <const Cosines& Window>
void eval_window(EvalCall& call) {
  const std::int64_t size = scalar_in(call, 0, "size");
  Dims dims = computable({size});
  const double period = static_cast<double>(call.integer("periodic") != 0 ? size : size - 1);
  std::vector<double> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = 2.0 * std::numbers::pi * static_cast<double>(i) / period;
    values[i] = Window.a0 - Window.a1 * std::cos(x) + Window.a2 * std::cos(2.0 * x);
  }
  call.out(0, from_elements<double>(output_datatype(call), std::move(dims), values));
}

// ---- MelWeightMatrix ---------------------------------------------------------

void infer_mel(InferCall& call) {
  call.set_dtype(0, output_datatype(call));
  call.set_shape(0, {one_sided(size_value(call, 1)), size_value(call, 0)});
}

double mel_of_hertz(double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); }
double hertz_of_mel(double mel) { return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0); }

// The spectrogram bins at which the triangles begin, peak and end: equally spaced on the mel scale.
std::vector<std::int64_t> mel_corners(const EvalCall& call, std::int64_t bands, std::int64_t points) {
  const std::int64_t rate = scalar_in(call, 2, "sample_rate");
  if (rate < 1) throw Error("sample_rate is " + std::to_string(rate));
  const double low = mel_of_hertz(element_as_double(call.in(3), 0));
  const double high = mel_of_hertz(element_as_double(call.in(4), 0));
  const double step = (high - low) / static_cast<double>(bands + 2);
  std::vector<std::int64_t> corners;
  for (std::int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = hertz_of_mel(low + step * static_cast<double>(i));
    const double bin = std::floor(static_cast<double>(points + 1) * hertz / static_cast<double>(rate));
    if (!(bin >= 0.0 && bin < static_cast<double>(one_sided(points)))) {
      throw Error("the mel bands reach beyond half the sample rate");
    }
    corners.push_back(static_cast<std::int64_t>(bin));
  }
  return corners;
}

void eval_mel(EvalCall& call) {
  const std::int64_t bands = scalar_in(call, 0, "num_mel_bins");
  const std::int64_t points = scalar_in(call, 1, "dft_length");
  if (bands < 0 || points < 0) throw Error("num_mel_bins and dft_length must not be negative");
  Dims dims = computable({one_sided(points), bands});
  const std::vector<std::int64_t> corners = mel_corners(call, bands, points);
  std::vector<double> weights(static_cast<std::size_t>(element_count(dims)));
  for (std::int64_t band = 0; band < bands; ++band) {
    const auto at = static_cast<std::size_t>(band);
    const std::int64_t begin = corners[at];
    const std::int64_t peak = corners[at + 1];
    const std::int64_t end = corners[at + 2];
    const auto weight = [&](std::int64_t bin) -> double& {
      return weights[static_cast<std::size_t>(bin * bands + band)];
    };
    for (std::int64_t bin = begin; bin < peak; ++bin)
      weight(bin) = static_cast<double>(bin - begin) / static_cast<double>(peak - begin);
    weight(peak) = 1.0;
    for (std::int64_t bin = peak; bin < end; ++bin)
      weight(bin) = static_cast<double>(end - bin) / static_cast<double>(end - peak);
  }
  call.out(0, from_elements<double>(output_datatype(call), std::move(dims), weights));
}

constexpr std::string_view kWindowSignature = "(size: int32|int64) -> (output: T) where T: number";
constexpr std::string_view kWindowAttrs = "output_datatype: int = 1; periodic: int = 1";
constexpr std::string_view kWindowFreedom = "computed in double, rounded once; a symmetric window of size 1 is NaN";

const OpDef kOps[] = {
    {.identity = {.name = "DFT",
                  .since = 17,
                  .summary = "discrete Fourier transform along an axis; the last axis holds real and imaginary parts",
                  .signature = "(input: T, dft_length?: int32|int64, axis?: int64 since 20) -> (output: T) where T: "
                               "float",
                  .attrs = "axis: int; inverse: int = 0; onesided: int = 0",
                  .tf = "FFT"},
     .meaning = {.infer = infer_dft, .eval = eval_dft, .freedom = kDftFreedom},
     .analysis = {.range = range_dft,
                  .vjp = dft_gradient,
                  .overflow = "FN205",
                  .grants = {.ways = {Way::longer_transform}, .measured_on = kOnnxRuntime}}},
    {.identity =
         {.name = "STFT",
          .since = 17,
          .summary = "Fourier transforms of overlapping windowed frames of a signal",
          .signature =
              "(signal: T, frame_step: I, window?: T, frame_length?: I) -> (output: T) where T: float, I: int32|int64",
          .attrs = "onesided: int = 1"},
     .meaning = {.infer = infer_stft, .eval = eval_stft, .freedom = kDftFreedom},
     .analysis = {.range = range_stft,
                  .vjp = stft_gradient,
                  .overflow = "FN205",
                  .grants = {.ways = {Way::longer_transform}, .measured_on = kOnnxRuntime}}},
    {.identity = {.name = "BlackmanWindow",
                  .since = 17,
                  .summary = "Blackman window of a given size",
                  .signature = kWindowSignature,
                  .attrs = kWindowAttrs},
     .meaning = {.infer = infer_window, .eval = eval_window<kBlackman>, .freedom = kWindowFreedom},
     .analysis = {.range = range_blackman_window}},
    {.identity = {.name = "HammingWindow",
                  .since = 17,
                  .summary = "Hamming window of a given size",
                  .signature = kWindowSignature,
                  .attrs = kWindowAttrs},
     .meaning = {.infer = infer_window, .eval = eval_window<kHamming>, .freedom = kWindowFreedom},
     .analysis = {.range = range_hamming_window}},
    {.identity = {.name = "HannWindow",
                  .since = 17,
                  .summary = "Hann window of a given size",
                  .signature = kWindowSignature,
                  .attrs = kWindowAttrs},
     .meaning = {.infer = infer_window, .eval = eval_window<kHann>, .freedom = kWindowFreedom},
     .analysis = {.range = range_hann_window}},
    {.identity = {.name = "MelWeightMatrix",
                  .since = 17,
                  .summary = "matrix of triangular filters from a linear spectrum to the mel scale",
                  .signature =
                      "(num_mel_bins: I, dft_length: I, sample_rate: I, lower_edge_hertz: F, upper_edge_hertz: F) -> "
                      "(output: T) where I: int32|int64, F: float, T: number",
                  .attrs = "output_datatype: int = 1",
                  .tf = "LinearToMelWeightMatrix"},
     .meaning = {.infer = infer_mel,
                 .eval = eval_mel,
                 .freedom = "band edges are computed in double, rounded down to bins"},
     .analysis = {.range = range_mel}},
};

}  // namespace

std::span<const OpDef> signal_ops() { return kOps; }

}  // namespace finity
