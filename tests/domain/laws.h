// The laws of a lattice with widening, for any domain type. A domain provides
//   draw(rng), join(a, b), widen(a, b), is_subset(a, b)
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace finity {

template <class Domain>
class LatticeLaws : public ::testing::Test {
 protected:
  using Element = typename Domain::Element;
  static bool same(const Element& a, const Element& b) { return Domain::is_subset(a, b) && Domain::is_subset(b, a); }
  // Calls f with three random elements, often related ones.
  template <class F>
  void for_triples(F f) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      Rng rng(seed);
      SCOPED_TRACE("seed " + std::to_string(seed));
      const Element a = Domain::draw(rng);
      const Element b = rng.below(4) == 0 ? Domain::join(a, Domain::draw(rng)) : Domain::draw(rng);
      f(a, b, Domain::draw(rng));
      if (this->HasFailure()) return;
    }
  }
};

TYPED_TEST_SUITE_P(LatticeLaws);

TYPED_TEST_P(LatticeLaws, OrderIsReflexiveAndTransitive) {
  int chains = 0;
  this->for_triples([&](const auto& a, const auto& b, const auto& c) {
    EXPECT_TRUE(TypeParam::is_subset(a, a));
    const auto ab = TypeParam::join(a, b);
    const auto abc = TypeParam::join(ab, c);
    if (TypeParam::is_subset(a, ab) && TypeParam::is_subset(ab, abc)) {
      ++chains;
      EXPECT_TRUE(TypeParam::is_subset(a, abc));
    }
    const bool chain = TypeParam::is_subset(a, b) && TypeParam::is_subset(b, c);
    EXPECT_TRUE(!chain || TypeParam::is_subset(a, c));
  });
  EXPECT_GT(chains, 1000);
}

TYPED_TEST_P(LatticeLaws, JoinIsAnUpperBound) {
  this->for_triples([&](const auto& a, const auto& b, const auto&) {
    EXPECT_TRUE(TypeParam::is_subset(a, TypeParam::join(a, b)));
    EXPECT_TRUE(TypeParam::is_subset(b, TypeParam::join(a, b)));
  });
}

TYPED_TEST_P(LatticeLaws, JoinIsIdempotentAndCommutative) {
  this->for_triples([&](const auto& a, const auto& b, const auto&) {
    EXPECT_TRUE(this->same(TypeParam::join(a, a), a));
    EXPECT_TRUE(this->same(TypeParam::join(a, b), TypeParam::join(b, a)));
  });
}

TYPED_TEST_P(LatticeLaws, WideningIsAnUpperBound) {
  this->for_triples([&](const auto& a, const auto& b, const auto&) {
    EXPECT_TRUE(TypeParam::is_subset(a, TypeParam::widen(a, b)));
    EXPECT_TRUE(TypeParam::is_subset(b, TypeParam::widen(a, b)));
  });
}

TYPED_TEST_P(LatticeLaws, WideningTerminates) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    auto state = TypeParam::draw(rng);
    int changes = 0;
    for (int i = 0; i < 3000; ++i) {
      const auto next = TypeParam::widen(state, TypeParam::join(state, TypeParam::draw(rng)));
      if (!TypeParam::is_subset(next, state)) ++changes;
      state = next;
    }
    EXPECT_LT(changes, TypeParam::kMostChanges) << "seed " << seed;
  }
}

REGISTER_TYPED_TEST_SUITE_P(LatticeLaws, OrderIsReflexiveAndTransitive, JoinIsAnUpperBound,
                            JoinIsIdempotentAndCommutative, WideningIsAnUpperBound, WideningTerminates);

}  // namespace finity
