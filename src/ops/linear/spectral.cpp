// Bounds of the largest singular value s of a matrix A. With G = A A^T (or A^T A, the smaller), s^2 is the largest
// eigenvalue of G, and s^(2 k) that of G^k, which is at most the Frobenius norm of G^k and at most the largest sum of
// magnitudes of a row of G^k. For k = 8 that is near s even for hundreds of rows.
//
// Products are computed in float, of matrices divided by a number not smaller than their Frobenius norm: so nothing
// overflows, and all that rounding and underflow do is at most a few times kUnit of 1. A sum of products of two rows is
// added up in blocks of kBlock; its error, over all elements of G, is at most product_error() times the square of the
// Frobenius norm (Cauchy and Schwarz), and is added to the bound. Both constants are twice what rounding needs, which
// is far more than what underflow adds.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/wide.h"
#include "ops/shared/lengths.h"

namespace finity {

namespace {

constexpr double kMostProducts = 1 << 30;
constexpr int kSquarings = 3;
constexpr double kSlack = 1e-9;    // of sums of up to millions of doubles, and of roots
constexpr double kUnit = 0x1p-22;  // of a number that was scaled and rounded to float
constexpr std::size_t kLanes = 16;
constexpr std::size_t kBlock = 128;

double product_error(std::size_t depth) { return static_cast<double>(kBlock + depth / kBlock + 8) * 0x1p-23; }

// ---- sums of squares -----------------------------------------------------------------------------

template <class T>
double sum_of_squares(std::span<const T> values) {
  double sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto x = static_cast<double>(values[i + lane]);
      sums[lane] += x * x;
    }
  }
  double all = 0;
  for (; i < values.size(); ++i) all += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (const double sum : sums) all += sum;
  return all;
}

// With what vanishes of squares of the smallest doubles.
template <class T>
double euclidean(std::span<const T> values) {
  return std::sqrt(sum_of_squares(values)) * (1 + kSlack) + 3e-162 * std::sqrt(static_cast<double>(values.size()));
}

// ---- panels ----------------------------------------------------------------------------------------

struct alignas(64) Lanes {
  float at[kLanes] = {};
};

// A matrix [depth, n], kLanes columns side by side; missing columns are zero.
struct Panels {
  Panels(std::size_t depth, std::size_t n) : depth(depth), count((n + kLanes - 1) / kLanes), rows(count * depth) {}

  Lanes* row(std::size_t panel, std::size_t k) { return rows.data() + panel * depth + k; }
  const Lanes* row(std::size_t panel, std::size_t k) const { return rows.data() + panel * depth + k; }

  std::size_t depth = 0, count = 0;
  std::vector<Lanes> rows;
};

// The matrix, or its transpose where it has more columns than rows; column j is multiplied by factors[j % size] and all
// by `scale`. Read in squares, so that both ways every line of memory is read once.
template <class T>
Panels packed(std::span<const T> matrix, std::size_t rows, std::size_t columns, std::span<const double> factors,
              double scale) {
  const bool turned = rows <= columns;
  Panels result(turned ? columns : rows, turned ? rows : columns);
  std::vector<double> by(columns, scale);
  for (std::size_t j = 0; j < columns && !factors.empty(); ++j) by[j] *= factors[j % factors.size()];
  for (std::size_t top = 0; top < rows; top += kLanes) {
    const std::size_t bottom = std::min(top + kLanes, rows);
    for (std::size_t left = 0; left < columns; left += kLanes) {
      const std::size_t right = std::min(left + kLanes, columns);
      Lanes* target = turned ? result.row(top / kLanes, left) : result.row(left / kLanes, top);
      for (std::size_t i = top; i < bottom; ++i) {
        for (std::size_t j = left; j < right; ++j) {
          const auto x = static_cast<float>(static_cast<double>(matrix[i * columns + j]) * by[j]);
          if (turned) target[j - left].at[i - top] = x;
          else target[i - top].at[j - left] = x;
        }
      }
    }
  }
  return result;
}

constexpr std::size_t kTogether = 4;

// out[r] += the sum over k of left[k][first + r] right[k].
FINITY_WIDE void add_products(const Lanes* left, std::size_t first, const Lanes* right, std::size_t depth, Lanes* out) {
  Lanes sums[kTogether];
  for (std::size_t k = 0; k < depth; ++k) {
    const float* factors = left[k].at + first;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (std::size_t r = 0; r < kTogether; ++r) sums[r].at[lane] += factors[r] * right[k].at[lane];
    }
  }
  for (std::size_t r = 0; r < kTogether; ++r) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) out[r].at[lane] += sums[r].at[lane];
  }
}

// M^T M. Only what lies on or below the diagonal is computed at first.
Panels gram(const Panels& m) {
  Panels result(m.count * kLanes, m.count * kLanes);
  for (std::size_t k = 0; k < m.depth; k += kBlock) {
    const std::size_t depth = std::min(kBlock, m.depth - k);
    for (std::size_t i = 0; i < m.count; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        for (std::size_t first = 0; first < kLanes; first += kTogether) {
          add_products(m.row(i, k), first, m.row(j, k), depth, result.row(j, i * kLanes + first));
        }
      }
    }
  }
  for (std::size_t i = 0; i < m.count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      for (std::size_t r = 0; r < kLanes; ++r) {
        const Lanes& from = *result.row(j, i * kLanes + r);
        for (std::size_t lane = 0; lane < kLanes; ++lane) result.row(i, j * kLanes + lane)->at[r] = from.at[lane];
      }
    }
  }
  return result;
}

// ---- norms -----------------------------------------------------------------------------------------

FINITY_WIDE void add_norms(const Lanes* rows, std::size_t depth, double* squares, double* magnitudes) {
  for (std::size_t k = 0; k < depth; ++k) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto x = static_cast<double>(rows[k].at[lane]);
      squares[lane] += x * x;
      magnitudes[lane] += std::abs(x);
    }
  }
}

struct Norms {
  double frobenius = 0;
  double sums = 0;  // largest sum of magnitudes of a column
};

Norms norms_of(const Panels& m) {
  double squares[kLanes] = {};
  Norms result;
  for (std::size_t panel = 0; panel < m.count; ++panel) {
    double magnitudes[kLanes] = {};
    add_norms(m.row(panel, 0), m.depth, squares, magnitudes);
    for (const double sum : magnitudes) result.sums = std::max(result.sums, sum * (1 + kSlack));
  }
  for (const double square : squares) result.frobenius += square;
  result.frobenius = std::sqrt(result.frobenius) * (1 + kSlack);
  return result;
}

// Of a symmetric matrix M: |M| <= a sqrt(|(M / a)^2|), where a is its Frobenius norm.
double symmetric_bound(Panels matrix, int squarings) {
  const Norms norms = norms_of(matrix);
  const double simple = std::min(norms.frobenius, norms.sums);
  if (squarings == 0 || !(norms.frobenius > 0)) return simple;
  for (Lanes& row : matrix.rows) {
    for (float& x : row.at) x = static_cast<float>(static_cast<double>(x) / norms.frobenius);
  }
  const double square = symmetric_bound(gram(matrix), squarings - 1) + product_error(matrix.depth);
  return std::min(simple, norms.frobenius * (std::sqrt(square) + kUnit) * (1 + kSlack));
}

// The root of the largest sum of magnitudes of a row times that of a column.
template <class T>
double by_sums(std::span<const T> matrix, std::size_t rows, std::size_t columns, std::span<const double> factors) {
  std::vector<double> down(columns);
  double across = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      const double factor = factors.empty() ? 1 : factors[j % factors.size()];
      const double size = std::abs(static_cast<double>(matrix[i * columns + j]) * factor);
      sum += size;
      down[j] += size;
    }
    across = std::max(across, sum);
  }
  return std::sqrt(across * *std::ranges::max_element(down)) * (1 + kSlack);
}

// As many as there is time for; -1: not even for the Gram matrix.
int affordable_squarings(double n, double depth) {
  int squarings = kSquarings;
  while (squarings >= 0 && n * n / 2 * (depth + squarings * n) > kMostProducts) --squarings;
  return squarings;
}

// `size` is at least the Frobenius norm.
template <class T>
double bound_of(std::span<const T> matrix, std::size_t rows, std::size_t columns, std::span<const double> factors,
                double size) {
  const std::size_t n = std::min(rows, columns), depth = std::max(rows, columns);
  if (n <= 1 || !(size > 0) || !std::isfinite(size)) return size;
  const int squarings = affordable_squarings(static_cast<double>(n), static_cast<double>(depth));
  if (squarings < 0) return std::min(size, by_sums(matrix, rows, columns, factors));
  const double unit = power_of_two_above(size);
  if (!std::isfinite(unit)) return size;
  const Panels panels = packed(matrix, rows, columns, factors, 1 / unit);
  const double square = symmetric_bound(gram(panels), squarings) + product_error(depth);
  return std::min(size, unit * (std::sqrt(square) + kUnit) * (1 + kSlack));
}

}  // namespace

double power_of_two_above(double x) {
  constexpr int kLeast = -1000;  // so that one over it is a number too
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent, kLeast));
}

double euclidean_size(std::span<const double> values) { return euclidean(values); }
double euclidean_size(std::span<const float> values) { return euclidean(values); }

double spectral_bound(std::span<const double> matrix, std::size_t rows, std::size_t columns) {
  return matrix.empty() ? 0 : bound_of(matrix, rows, columns, {}, euclidean(matrix));
}

double spectral_bound(std::span<const float> matrix, std::size_t rows, std::size_t columns,
                      std::span<const double> factors, double size) {
  return matrix.empty() ? 0 : bound_of(matrix, rows, columns, factors, size);
}

}  // namespace finity
