// Random tensors inside random abstract tensors, moved both ways: every element
// stays inside its cell, and every form gives exactly the element it speaks of.
#include "domain/movement.h"

#include <gtest/gtest.h>

#include <numeric>

#include "domain/concrete.h"
#include "domain/symbol_moves.h"

namespace finity {
namespace {

struct Pair {
  AbsTensor abstract;
  Concrete concrete;
};

class Movements : public ::testing::Test {
 protected:
  // Fails with what was done when an element is outside or a form is wrong.
  void check(const Pair& x, const std::string& how) {
    ASSERT_EQ(x.abstract.sizes, x.concrete.sizes) << how;
    std::size_t count = 1;
    for (std::size_t axis = 0; axis < x.abstract.rank(); ++axis) count *= x.abstract.blocks(axis);
    ASSERT_EQ(x.abstract.cells.size(), count) << how;
    for_each_index(x.concrete.sizes, [&](const Dims& index) {
      Dims within;
      const std::size_t cell = cell_of(x.abstract, index, &within);
      const double value = x.concrete.at(index);
      ASSERT_TRUE(x.abstract.cells[cell].contains(value)) << how << ": " << value;
      const Form form = cell_form(x.abstract, cell);
      if (!form.valid) return;
      ++forms_;
      ASSERT_EQ(world_.value(form, within), value) << how << ", chain " << chain_of(form);
    });
  }

  std::string chain_of(const Form& form) {
    return form.terms.empty() ? "" : world_.symbols().chain(form.terms[0].symbol);
  }

  Pair draw(const Dims& sizes) {
    Pair result{random_abstract(rng_, sizes), {}};
    result.concrete = world_.populate(result.abstract, rng_);
    return result;
  }

  Pair transpose(const Pair& x) {
    std::vector<std::size_t> perm(x.abstract.rank());
    std::iota(perm.begin(), perm.end(), 0U);
    for (std::size_t i = perm.size(); i > 1; --i) std::swap(perm[i - 1], perm[rng_.below(i)]);
    Dims sizes;
    for (const std::size_t axis : perm) sizes.push_back(x.concrete.sizes[axis]);
    return {transposed(x.abstract, perm, world_.symbols()), moved_by(x.concrete, sizes, [&](const Dims& index) {
              Dims from(index.size());
              for (std::size_t i = 0; i < perm.size(); ++i) from[perm[i]] = index[i];
              return from;
            })};
  }

  Pair slice(const Pair& x) {
    if (x.concrete.sizes.empty()) return x;
    const std::size_t axis = rng_.below(x.concrete.sizes.size());
    const auto size = static_cast<std::uint64_t>(x.concrete.sizes[axis]);
    const auto start = static_cast<std::int64_t>(rng_.below(size));
    const std::int64_t length = 1 + static_cast<std::int64_t>(rng_.below(size - static_cast<std::uint64_t>(start)));
    Dims sizes = x.concrete.sizes;
    sizes[axis] = length;
    return {sliced(x.abstract, axis, start, length, world_.symbols()), moved_by(x.concrete, sizes, [&](Dims index) {
              index[axis] += start;
              return index;
            })};
  }

  Pair select(const Pair& x) {
    if (x.concrete.sizes.empty()) return x;
    const std::size_t axis = rng_.below(x.concrete.sizes.size());
    Dims list(1 + rng_.below(4));
    std::string text;
    for (std::int64_t& entry : list) {
      entry = static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(x.concrete.sizes[axis])));
      text += (text.empty() ? "" : ",") + std::to_string(entry);
    }
    Dims sizes = x.concrete.sizes;
    sizes[axis] = static_cast<std::int64_t>(list.size());
    return {selected(x.abstract, axis, sizes[axis], select_step(x.abstract.rank() - axis, text), world_.symbols()),
            moved_by(x.concrete, sizes, [&](Dims index) {
              index[axis] = list[static_cast<std::size_t>(index[axis])];
              return index;
            })};
  }

  Pair unsqueeze(const Pair& x) {
    const std::size_t rank = x.concrete.sizes.size();
    if (rank > 4) return x;
    const std::vector<std::size_t> axes = {rng_.below(rank + 1)};
    Dims sizes = x.concrete.sizes;
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axes[0]), 1);
    return {unsqueezed(x.abstract, axes, world_.symbols()), {sizes, x.concrete.values}};
  }

  Pair squeeze(const Pair& x) {
    std::vector<std::size_t> axes;
    Dims sizes;
    for (std::size_t axis = 0; axis < x.concrete.sizes.size(); ++axis) {
      if (x.concrete.sizes[axis] == 1 && rng_.below(2) == 0) axes.push_back(axis);
      else sizes.push_back(x.concrete.sizes[axis]);
    }
    return {squeezed(x.abstract, axes, world_.symbols()), {sizes, x.concrete.values}};
  }

  Pair reshape(const Pair& x) {
    Dims sizes;
    auto left = static_cast<std::int64_t>(x.concrete.values.size());
    while (left > 1) {
      std::int64_t factor = 2;
      while (left % factor != 0) ++factor;
      left /= factor;
      if (!sizes.empty() && rng_.below(2) == 0) sizes.back() *= factor;
      else sizes.push_back(factor);
      if (rng_.below(5) == 0) sizes.push_back(1);
    }
    if (sizes.size() > 5) sizes = {static_cast<std::int64_t>(x.concrete.values.size())};
    for (std::size_t i = sizes.size(); i > 1; --i) std::swap(sizes[i - 1], sizes[rng_.below(i)]);
    return {reshaped(x.abstract, sizes, world_.symbols()), {sizes, x.concrete.values}};
  }

  Pair broadcast(const Pair& x) {
    Dims sizes = x.concrete.sizes;
    for (std::int64_t& size : sizes) {
      if (size == 1) size = 1 + static_cast<std::int64_t>(rng_.below(3));
    }
    if (sizes.size() < 4 && rng_.below(2) == 0) sizes.insert(sizes.begin(), 2);
    const std::size_t more = sizes.size() - x.concrete.sizes.size();
    return {broadcasted(x.abstract, sizes, world_.symbols()), moved_by(x.concrete, sizes, [&](const Dims& index) {
              Dims from(index.begin() + static_cast<std::ptrdiff_t>(more), index.end());
              for (std::size_t i = 0; i < from.size(); ++i) {
                if (x.concrete.sizes[i] == 1) from[i] = 0;
              }
              return from;
            })};
  }

  // x beside a new tensor along a random axis.
  Pair concatenate(const Pair& x) {
    if (x.concrete.sizes.empty() || x.concrete.values.size() > 200) return x;
    const std::size_t axis = rng_.below(x.concrete.sizes.size());
    Dims other = x.concrete.sizes;
    other[axis] = 1 + static_cast<std::int64_t>(rng_.below(3));
    const Pair y = draw(other);
    Dims sizes = x.concrete.sizes;
    sizes[axis] += other[axis];
    Concrete concrete{sizes, {}};
    for_each_index(sizes, [&](Dims index) {
      const bool first = index[axis] < x.concrete.sizes[axis];
      if (!first) index[axis] -= x.concrete.sizes[axis];
      concrete.values.push_back(first ? x.concrete.at(index) : y.concrete.at(index));
    });
    const std::vector<const AbsTensor*> parts = {&x.abstract, &y.abstract};
    return {concatenated(parts, axis, sizes, 64, &world_.symbols()), concrete};
  }

  Pair refine(const Pair& x) {
    std::vector<Cuts> cuts(x.abstract.rank());
    for (std::size_t axis = 0; axis < cuts.size(); ++axis) {
      if (rng_.below(2) == 0) cuts[axis].push_back(static_cast<std::int64_t>(rng_.below(5)));
    }
    return {refined(x.abstract, cuts, &world_.symbols()), x.concrete};
  }

  Pair make_simple(const Pair& x) {
    Pair result = x;
    simplify(result.abstract, 1 + rng_.below(8));
    return result;
  }

  // Stored values get new symbols where no form is known.
  Pair store(Pair x) {
    if (x.abstract.forms.empty()) x.concrete = world_.populate(x.abstract, rng_);
    return x;
  }

  Pair step(const Pair& x, std::string& how) {
    struct Choice {
      const char* name;
      Pair (Movements::*move)(const Pair&);
    };
    static const Choice kChoices[] = {{"transpose", &Movements::transpose}, {"slice", &Movements::slice},
                                      {"select", &Movements::select},       {"unsqueeze", &Movements::unsqueeze},
                                      {"squeeze", &Movements::squeeze},     {"reshape", &Movements::reshape},
                                      {"broadcast", &Movements::broadcast}, {"concat", &Movements::concatenate},
                                      {"refine", &Movements::refine},       {"simplify", &Movements::make_simple}};
    const Choice& choice = kChoices[rng_.below(std::size(kChoices))];
    how += std::string(" ") + choice.name;
    return (this->*choice.move)(x);
  }

  Rng rng_{1};
  World world_;
  int forms_ = 0;
};

TEST_F(Movements, ChainsKeepElementsInTheirCells) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    rng_ = Rng(seed);
    world_ = World();
    std::string how = "seed " + std::to_string(seed) + ":";
    Pair x = draw(random_sizes(rng_, 3));
    check(x, how);
    for (int i = 0; i < 7 && x.concrete.values.size() < 600; ++i) {
      x = store(step(x, how));
      check(x, how);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(forms_, 100000);  // the forms did not get lost on the way
}

// ---- relations survive exactly where elements correspond -------------------------------------------------

class Relations : public ::testing::Test {
 protected:
  AbsTensor stored(const Dims& sizes) {
    AbsTensor x = uniform(DType::float32, sizes, from_bounds(DType::float32, -1, 1));
    x.first_symbol = symbols_.fresh(x.cells[0]);
    return x;
  }
  Form form(const AbsTensor& x, std::size_t cell = 0) { return cell_form(x, cell); }
  // Does a - b cancel to zero in every cell of the same grid?
  bool cancels(const AbsTensor& a, const AbsTensor& b) {
    if (a.cuts != b.cuts || a.sizes != b.sizes) return false;
    for (std::size_t i = 0; i < a.cells.size(); ++i) {
      const Form difference = subtract(form(a, i), form(b, i));
      if (!difference.valid || !difference.terms.empty() || difference.constant != 0) return false;
    }
    return true;
  }
  AbsTensor transpose(const AbsTensor& x, std::vector<std::size_t> perm) { return transposed(x, perm, symbols_); }

  Symbols symbols_;
};

TEST_F(Relations, TransposeDoesNotCancel) {
  const AbsTensor x = stored({3, 3});
  EXPECT_FALSE(cancels(x, transpose(x, {1, 0})));
  EXPECT_TRUE(cancels(x, transpose(transpose(x, {1, 0}), {1, 0})));
  EXPECT_TRUE(cancels(x, x));
}

TEST_F(Relations, TransposingAroundGivesTheSameTensor) {
  const AbsTensor x = stored({2, 3, 4});
  const AbsTensor y = transpose(transpose(transpose(x, {1, 2, 0}), {1, 2, 0}), {1, 2, 0});
  EXPECT_TRUE(cancels(x, y));
  EXPECT_FALSE(cancels(transpose(x, {1, 0, 2}), transpose(x, {0, 2, 1})));
}

TEST_F(Relations, SplitAndConcatCancelWithTheOriginal) {
  const AbsTensor x = stored({2, 6});
  const AbsTensor a = sliced(x, 1, 0, 2, symbols_);
  const AbsTensor b = sliced(x, 1, 2, 4, symbols_);
  const std::vector<const AbsTensor*> parts = {&a, &b};
  const AbsTensor y = concatenated(parts, 1, {2, 6}, 64);
  EXPECT_EQ(y.cuts, (std::vector<Cuts>{{}, {2}}));
  EXPECT_TRUE(cancels(refined(x, y.cuts, &symbols_), y));
  const std::vector<const AbsTensor*> swapped = {&b, &a};
  const AbsTensor z = concatenated(swapped, 1, {2, 6}, 64);
  EXPECT_FALSE(cancels(refined(x, z.cuts, &symbols_), z));
}

TEST_F(Relations, SlicesOfSlicesAreSlices) {
  const AbsTensor x = stored({8, 8});
  const AbsTensor twice = sliced(sliced(x, 0, 2, 5, symbols_), 0, 1, 3, symbols_);
  EXPECT_TRUE(cancels(twice, sliced(x, 0, 3, 3, symbols_)));
  EXPECT_FALSE(cancels(twice, sliced(x, 0, 2, 3, symbols_)));
  const AbsTensor ab = sliced(sliced(x, 0, 2, 5, symbols_), 1, 1, 3, symbols_);
  const AbsTensor ba = sliced(sliced(x, 1, 1, 3, symbols_), 0, 2, 5, symbols_);
  EXPECT_TRUE(cancels(ab, ba));
}

TEST_F(Relations, SlicesCommuteWithTranspose) {
  const AbsTensor x = stored({8, 6});
  EXPECT_TRUE(
      cancels(transpose(sliced(x, 0, 2, 3, symbols_), {1, 0}), sliced(transpose(x, {1, 0}), 1, 2, 3, symbols_)));
  EXPECT_FALSE(
      cancels(transpose(sliced(x, 0, 2, 3, symbols_), {1, 0}), sliced(transpose(x, {1, 0}), 1, 3, 3, symbols_)));
}

TEST_F(Relations, RepeatedRowsAreNotTheRowsTheyWereSlicedFrom) {
  // x[3:4] repeated over all rows and sliced again is still row 3, not row 5.
  const AbsTensor x = stored({8, 6});
  const AbsTensor row = broadcasted(sliced(x, 0, 3, 1, symbols_), {8, 6}, symbols_);
  EXPECT_TRUE(cancels(sliced(row, 0, 2, 1, symbols_), sliced(x, 0, 3, 1, symbols_)));
  EXPECT_FALSE(cancels(sliced(row, 0, 2, 1, symbols_), sliced(x, 0, 5, 1, symbols_)));
}

TEST_F(Relations, UnitAxesComeAndGo) {
  const AbsTensor x = stored({2, 3});
  const std::vector<std::size_t> inner = {1};
  const std::vector<std::size_t> first = {0};
  const AbsTensor y = unsqueezed(x, inner, symbols_);
  EXPECT_TRUE(cancels(x, squeezed(y, inner, symbols_)));
  EXPECT_TRUE(cancels(x, reshaped(y, {2, 3}, symbols_)));
  EXPECT_TRUE(cancels(y, reshaped(x, {2, 1, 3}, symbols_)));
  // Row i of x against column i: [2,1,3] and [1,2,3] are different functions of x.
  EXPECT_FALSE(
      cancels(broadcasted(y, {2, 2, 3}, symbols_), broadcasted(unsqueezed(x, first, symbols_), {2, 2, 3}, symbols_)));
}

TEST_F(Relations, ReshapeIsTheSameFunctionOnlyForTheSameSizes) {
  const AbsTensor x = stored({2, 6});
  EXPECT_TRUE(cancels(reshaped(x, {3, 4}, symbols_), reshaped(reshaped(x, {12}, symbols_), {3, 4}, symbols_)));
  EXPECT_TRUE(cancels(x, reshaped(reshaped(x, {3, 4}, symbols_), {2, 6}, symbols_)));
  const AbsTensor square = stored({4, 9});
  EXPECT_FALSE(cancels(reshaped(square, {6, 6}, symbols_),
                       transpose(reshaped(transpose(square, {1, 0}), {6, 6}, symbols_), {1, 0})));
}

TEST_F(Relations, UnknownSizesDropFormsOfRealReshapes) {
  const AbsTensor x = stored({-1, 6});
  EXPECT_FALSE(form(reshaped(x, {-1, 3}, symbols_)).valid);
  EXPECT_TRUE(form(reshaped(x, {-1, 1, 6}, symbols_)).valid);
  EXPECT_TRUE(cancels(x, reshaped(reshaped(x, {-1, 1, 6}, symbols_), {-1, 6}, symbols_)));
  const AbsTensor two = stored({-1, -1});
  EXPECT_FALSE(form(reshaped(two, {-1, 1, -1}, symbols_)).valid);
}

TEST_F(Relations, PositivePartsMoveAlong) {
  const AbsTensor x = stored({2, 3});
  const Sym positive = symbols_.relu(x.first_symbol);
  const std::string step = slice_step(1, 0, 2);
  EXPECT_EQ(symbols_.moved(positive, step), symbols_.relu(symbols_.moved(x.first_symbol, step)));
}

// ---- grids through reshapes -----------------------------------------------------------------------------------

TEST(ReshapedGrid, CutsFollowTheElements) {
  Symbols symbols;
  AbsTensor x = uniform(DType::float32, {4, 6}, {});
  x.cuts = {{2}, {}};
  x.cells = {point(1), point(2)};
  const AbsTensor merged = reshaped(x, {24}, symbols);
  EXPECT_EQ(merged.cuts, (std::vector<Cuts>{{12}}));
  const AbsTensor split = reshaped(x, {2, 2, 6}, symbols);
  EXPECT_EQ(split.cuts, (std::vector<Cuts>{{1}, {}, {}}));
  EXPECT_EQ(split.cells, x.cells);
  const AbsTensor odd = reshaped(x, {3, 8}, symbols);  // 12 is inside row 1 of 8
  EXPECT_TRUE(odd.hull().contains(1) && odd.hull().contains(2));
}

TEST(ReshapedGrid, ColumnsSurviveMergingTheOtherAxes) {
  Symbols symbols;
  AbsTensor x = uniform(DType::float32, {1, -1, 4}, {});
  x.cuts = {{}, {}, {2}};
  x.cells = {point(1), point(2)};
  const AbsTensor y = reshaped(x, {-1, 4}, symbols);
  EXPECT_EQ(y.cuts, (std::vector<Cuts>{{}, {2}}));
  AbsTensor z = uniform(DType::float32, {1, 3, 80, 80, 4}, {});
  z.cuts = {{}, {}, {}, {}, {2}};
  z.cells = {point(1), point(2)};
  const AbsTensor w = reshaped(z, {1, 19200, 4}, symbols);
  EXPECT_EQ(w.cuts, (std::vector<Cuts>{{}, {}, {2}}));
}

// ---- relations --------------------------------------------------------------------------------------------------

bool is_aligned(const AbsTensor& x) { return std::get<AggregateBound>(x.relations.at(0)).source.aligned; }
AxisBits row_axes(const AbsTensor& x) { return std::get<RowBound>(x.relations.at(0)).axes; }

TEST(MovedRelations, ReducedAxesComeBack) {
  Symbols symbols;
  AbsTensor x = uniform(DType::float32, {2, 5}, point(1));
  x.relations = {AggregateBound{.source = {ValueId{7}, 2, false}, .of = Of::largest}};
  const std::vector<std::size_t> right = {1};
  const std::vector<std::size_t> wrong = {2};
  const AbsTensor y = unsqueezed(x, right, symbols);
  ASSERT_NE(find_below(y.relations, Of::largest, ValueId{7}), nullptr);
  EXPECT_TRUE(is_aligned(y));
  EXPECT_TRUE(unsqueezed(x, wrong, symbols).relations.empty());
  EXPECT_EQ(reshaped(x, {2, 1, 5}, symbols).relations.size(), 1U);
  EXPECT_TRUE(reshaped(x, {2, 5, 1}, symbols).relations.empty());
  EXPECT_FALSE(is_aligned(squeezed(y, right, symbols)));
}

TEST(MovedRelations, RowsKeepTheirAxes) {
  Symbols symbols;
  AbsTensor x = uniform(DType::float32, {2, 5}, point(1));
  x.relations = {RowBound{.axes = 2, .of = Of::sum, .in = point(1)}};
  const std::vector<std::size_t> front = {0};
  EXPECT_EQ(row_axes(unsqueezed(x, front, symbols)), 4U);
  EXPECT_EQ(row_axes(squeezed(unsqueezed(x, front, symbols), front, symbols)), 2U);
}

TEST(MovedRelations, RowsTurnWithTheirAxes) {
  Symbols symbols;
  AbsTensor x = uniform(DType::float32, {2, 3, 5}, point(1));
  x.relations = {RowBound{.axes = 2, .of = Of::norm, .in = point(1)},
                 AggregateBound{.source = {ValueId{7}}, .of = Of::largest, .order = Order::at_least}};
  const std::vector<std::size_t> turned = {2, 0, 1};
  const AbsTensor y = transposed(x, turned, symbols);
  ASSERT_EQ(y.relations.size(), 1U);  // what is compared with another value does not turn with it
  EXPECT_EQ(row_axes(y), 4U);
}

}  // namespace
}  // namespace finity
