// Bounds of the largest singular value s of a matrix A. With G = A A^T (or A^T A, the smaller), s^2 is the largest
// eigenvalue of G, and s^(2 k) that of G^k, which is at most the Frobenius norm of G^k. For k = 8 that is near s even
// for hundreds of rows. Every product is computed in double; its error is at most (n + 2) u times the product of the
// Frobenius norms, and is added to the norm.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/shared/lengths.h"

namespace finity {

namespace {

constexpr double kMostProducts = 1 << 30;
constexpr int kSquarings = 3;
constexpr double kSlack = 1e-9;  // of sums of up to millions of doubles, and of roots

// With what vanishes of squares of the smallest doubles.
double frobenius(std::span<const double> matrix) {
  double squares = 0;
  for (const double x : matrix) squares += x * x;
  return std::sqrt(squares) * (1 + kSlack) + 3e-162 * std::sqrt(static_cast<double>(matrix.size()));
}

// The root of the largest sum of magnitudes of a row times that of a column.
double by_sums(std::span<const double> matrix, std::size_t rows, std::size_t columns) {
  std::vector<double> down(columns);
  double across = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      const double size = std::abs(matrix[i * columns + j]);
      sum += size;
      down[j] += size;
    }
    across = std::max(across, sum);
  }
  return std::sqrt(across * *std::ranges::max_element(down)) * (1 + kSlack);
}

// Nearly all the time of a deep convolution network goes into this one loop, so it is compiled for wide registers where
// the processor has them. Rounding is that of the written operations.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define FINITY_WIDE __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define FINITY_WIDE
#endif

constexpr std::size_t kTogether = 8;

FINITY_WIDE void add_products(const double* const* row, const double* factor, std::size_t count, double* out) {
  const double *a = row[0], *b = row[1], *c = row[2], *d = row[3];
  const double *e = row[4], *f = row[5], *g = row[6], *h = row[7];
  for (std::size_t j = 0; j < count; ++j) {
    const double first = factor[0] * a[j] + factor[1] * b[j] + factor[2] * c[j] + factor[3] * d[j];
    out[j] += first + (factor[4] * e[j] + factor[5] * f[j] + factor[6] * g[j] + factor[7] * h[j]);
  }
}

// target [n, n] = sum over k of the products of row k with itself, of a matrix [depth, n]; only j <= i is computed at
// first. Some rows at a time: each element of the target is read and written once for them.
std::vector<double> gram(std::span<const double> matrix, std::size_t depth, std::size_t n) {
  std::vector<double> target(n * n);
  for (std::size_t k = 0; k < depth; k += kTogether) {
    const std::size_t left = std::min(kTogether, depth - k);
    const double* row[kTogether];
    for (std::size_t r = 0; r < kTogether; ++r) row[r] = matrix.data() + (k + (r < left ? r : 0)) * n;
    for (std::size_t i = 0; i < n; ++i) {
      double factor[kTogether] = {};
      for (std::size_t r = 0; r < left; ++r) factor[r] = row[r][i];
      add_products(row, factor, i + 1, target.data() + i * n);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) target[j * n + i] = target[i * n + j];
  }
  return target;
}

double product_error(double depth) { return (depth + 8) * 0x1p-52; }

// Of a symmetric matrix M: |M| <= a sqrt(|(M / a)^2|), where a is its Frobenius norm, so that powers neither overflow
// nor vanish.
double symmetric_bound(std::vector<double> matrix, std::size_t n, int squarings) {
  const double norm = frobenius(matrix);
  if (squarings == 0 || !(norm > 0) || !std::isfinite(norm)) return norm;
  for (double& x : matrix) x /= norm;
  const double square = symmetric_bound(gram(matrix, n, n), n, squarings - 1) + product_error(static_cast<double>(n));
  return norm * std::sqrt(square) * (1 + kSlack);
}

std::vector<double> transposed(std::span<const double> matrix, std::size_t rows, std::size_t columns) {
  std::vector<double> result(matrix.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = matrix[i * columns + j];
  }
  return result;
}

}  // namespace

double spectral_bound(std::span<const double> matrix, std::size_t rows, std::size_t columns) {
  if (matrix.empty()) return 0;
  const double size = frobenius(matrix);
  if (!std::isfinite(size) || size == 0) return size;
  const double bound = std::min(size, by_sums(matrix, rows, columns));
  const auto small = static_cast<double>(std::min(rows, columns)), large = static_cast<double>(std::max(rows, columns));
  if (small == 1 || small * small * (large + kSquarings * small) > 2 * kMostProducts) return bound;
  const bool wide = rows <= columns;
  const std::vector<double> turned = wide ? transposed(matrix, rows, columns) : std::vector<double>();
  const std::span<const double> deep = wide ? std::span<const double>(turned) : matrix;
  const auto n = static_cast<std::size_t>(small), depth = static_cast<std::size_t>(large);
  const double square = symmetric_bound(gram(deep, depth, n), n, kSquarings) + product_error(large) * size * size;
  return std::min(bound, std::sqrt(square) * (1 + kSlack));
}

}  // namespace finity
