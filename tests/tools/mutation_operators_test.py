#!/usr/bin/env python3
"""Tests the mutation operators and the list of equivalent mutants of tools/mutate.py."""

import pathlib
import sys
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
sys.dont_write_bytecode = True

import mutate  # noqa: E402
from mutation_operators import mutants_of  # noqa: E402


def mutants(text, operator=None, inside=None):
    """The changed lines, without indentation."""
    return [m.after.strip() for m in mutants_of(text, inside) if operator in (None, m.operator)]


class Operators(unittest.TestCase):
    def expect(self, line, operator, *wanted):
        self.assertEqual(sorted(mutants("  " + line, operator)), sorted(wanted))

    def test_comparisons(self):
        self.expect("if (a < b) x();", "comparison", "if (a <= b) x();")
        self.expect("return a >= b;", "comparison", "return a > b;")
        self.expect("return a == b;", "equality", "return a != b;")
        self.expect("std::vector<Cuts> cuts;", "comparison")

    def test_arithmetic(self):
        self.expect("x = a + b * c;", "sign", "x = a - b * c;")
        self.expect("x = a + b * c;", "factor", "x = a + b / c;")
        self.expect("x -= 4;", "sign", "x += 4;")
        self.expect("const AbsTensor* x = y;", "factor")
        self.expect("x = -a;", "sign")

    def test_logic(self):
        self.expect("return a && !b;", "logic", "return a || !b;")
        self.expect("r.nan |= b;", "logic", "r.nan &= b;")
        self.expect("void f(Range&& x);", "logic")
        self.expect("f(true);", "truth", "f(false);")
        self.expect("f(untrue);", "truth")

    def test_ends(self):
        self.expect("x = std::min(r.lo, y);", "extreme", "x = std::max(r.lo, y);")
        self.expect("x = std::min(r.lo, y);", "end", "x = std::min(r.hi, y);")
        self.expect("x = slow;", "end")
        self.expect("x = join(a, b);", "lattice", "x = meet(a, b);")

    def test_rounding(self):
        self.expect("x = next_up(dtype, f(a, b));", "rounding", "x = next_down(dtype, f(a, b));", "x = f(a, b);")
        self.expect("x = std::floor(y);", "rounding", "x = std::ceil(y);", "x = y;")
        self.expect("x = std::nextafter(lo, -kInf);", "rounding", "x = lo;")

    def test_numbers(self):
        self.expect("f(0, 1);", "number", "f(1, 1);", "f(0, 0);")
        self.expect("x = 2 * n + 8 * u;", "number", "x = 3 * n + 8 * u;", "x = 2 * n + 0 * u;")
        self.expect("std::array<char, 32> b;", "number")
        self.expect("x = 1e-6 + x0 + 0.5;", "number")

    def test_conditions(self):
        self.expect("if (f(a) && b) x();", "condition", "if (!(f(a) && b)) x();")
        self.expect("if (const auto x = f(); x) g();", "condition")

    def test_statements(self):
        self.expect("x.lo = 3;", "statement", ";")
        self.expect("call.out(0, x);", "statement", ";")
        self.expect("const double x = 3;", "statement")
        self.expect("double x = 3;", "statement")
        self.expect("return f(x);", "statement")
        self.expect("cells.reserve(3);", "statement")
        self.expect("if (a) return b;", "guard", ";")
        self.expect("if (a) continue;", "guard", ";")

    def test_statement_over_two_lines_is_not_dropped(self):
        self.assertEqual(mutants("  x = f(a,\n  g(b));", "statement"), [])

    def test_what_is_no_code(self):
        self.assertEqual(mutants("// a < b\n#include <a/b.h>\nnamespace a {\nassert(a < b);\n"), [])
        self.assertEqual(mutants('  throw Error("a < b");\n  // a + b'), [])
        self.expect('f(" < 1 ");', "comparison")
        self.expect("f(a);  // 1 < 2", "number")

    def test_lines_are_counted_from_one(self):
        (found,) = [m for m in mutants_of("\n\n  r = a < b;\n") if m.operator == "comparison"]
        self.assertEqual((found.line, found.before), (3, "  r = a < b;"))

    def test_only_some_functions(self):
        text = "void eval(EvalCall& call) {\n  f(1);\n}\nvoid range(RangeCall& call) {\n  g(1);\n}\nint x = 1;\n"
        self.assertEqual(mutants(text, "number", "RangeCall"), ["g(0);"])


class Equivalent(unittest.TestCase):
    def test_reading(self):
        text = "# reason\na.cpp\n# why\n- x < y\n+ x <= y\n+ x > y\n\nb.cpp\n- p\n+ q\n"
        self.assertEqual(
            mutate.read_equivalent(text), {("a.cpp", "x < y", "x <= y"), ("a.cpp", "x < y", "x > y"), ("b.cpp", "p", "q")}
        )

    def test_list_is_up_to_date(self):
        listed = mutate.read_equivalent((TOOLS / "mutants_equivalent.txt").read_text(encoding="utf-8"))
        there = {(path, m.before.strip(), m.after.strip()) for path, m in mutate.all_mutants(mutate.ROOT, mutate.FILES)}
        self.assertEqual(listed - there, set())


class Samples(unittest.TestCase):
    def test_files_with_and_without_range_code(self):
        paths = {path for path, _ in mutate.all_mutants(mutate.ROOT, mutate.FILES)}
        self.assertIn("src/domain/range.cpp", paths)
        self.assertIn("src/ops/reduce/reduce_range.cpp", paths)
        self.assertIn("src/ops/reduce/loss.cpp", paths)  # has range rules
        self.assertNotIn("src/ops/extra/text/regex.cpp", paths)
        self.assertNotIn("src/check/analyze.cpp", paths)

    def test_text_of_a_mutant(self):
        (found,) = [m for m in mutants_of("a;\n  r = a < b;\nc;\n") if m.operator == "comparison"]
        self.assertEqual(mutate.with_mutant("a;\n  r = a < b;\nc;\n", found), "a;\n  r = a <= b;\nc;\n")

    def test_share(self):
        verdicts = [mutate.Verdict("a", None, result) for result in ["killed"] * 3 + ["survived", "invalid", "same"]]
        self.assertEqual(mutate.share_killed(verdicts), 75)


if __name__ == "__main__":
    unittest.main()
