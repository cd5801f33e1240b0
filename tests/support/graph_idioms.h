// What random graphs are made of besides single ops: the idioms whose relations the analysis knows.
#pragma once

#include <string_view>
#include <vector>

namespace finity {

using Texts = std::vector<std::string_view>;

// Idioms: each step `result = Op(operands) {attributes}` with R for a reduced axis; x, y are values at hand, and a
// number after # is a constant.
inline const std::vector<Texts> kIdioms = {
    {"m = ReduceMax(x) R", "d = Sub(x, m)", "e = Exp(d)", "s = ReduceSum(e) R", "q = Div(e, s)", "l = Log(s)"},
    {"m = ReduceMax(x) R", "d = Sub(x, m)", "e = Exp(d)", "s = ReduceSum(e) R", "l = Log(s)", "t = Add(l, m)",
     "o = Sub(x, t)"},
    {"m = ReduceMean(x) R", "d = Sub(x, m)", "v = Mul(d, d)", "s = ReduceMean(v) R", "e = Add(s, #1e-5)", "r = Sqrt(e)",
     "q = Div(d, r)"},
    {"v = Mul(x, x)", "s = ReduceSum(v) R", "r = Sqrt(s)", "f = Max(r, #1e-6)", "q = Div(x, f)", "g = Mul(q, q)",
     "h = Sub(#1, g)"},
    {"v = Mul(x, x)", "a = ReduceMean(v) R", "m = ReduceMean(x) R", "w = Mul(m, m)", "d = Sub(a, w)", "r = Sqrt(d)"},
    {"a = Abs(x)", "s = ReduceSum(a) R", "e = Add(s, #1e-3)", "q = Div(x, e)", "t = ReduceSum(q) R"},
    {"a = Abs(x)", "b = Add(a, #1)", "q = Div(x, b)", "o = Sub(#1, q)", "l = Log(o)"},
    {"a = Abs(x)", "n = Neg(a)", "e = Exp(n)", "o = Add(e, #1)", "l = Log(o)", "r = Relu(x)", "t = Add(r, l)"},
    {"p = Softmax(x) A", "e = Add(p, #1e-8)", "l = Log(e)", "q = Mul(p, l)", "s = ReduceSum(q) R"},
    {"p = Sigmoid(x)", "o = Sub(#1, p)", "c = Max(o, #1e-6)", "l = Log(c)", "q = Mul(p, o)", "r = Sqrt(q)"},
    {"p = Softmax(x) A", "o = Sub(#1, p)", "s = ReduceSum(p) R", "l = Log(s)", "r = Sqrt(o)"},
    {"c = Greater(x, #0)", "f = Where(c, x, #1)", "l = Log(f)", "r = Where(c, l, #0)"},
    {"c = Greater(x, y)", "d = Sub(x, y)", "f = Where(c, d, #1)", "l = Log(f)", "q = Reciprocal(f)"},
    {"d = Sub(x, y)", "v = Mul(d, d)", "s = ReduceSum(v) R", "e = Add(s, #1e-3)", "r = Sqrt(e)", "q = Reciprocal(r)"},
    {"a = Max(x, y)", "i = Min(x, y)", "d = Sub(a, i)", "r = Sqrt(d)", "e = Sub(i, a)", "q = Exp(e)"},
    {"m = ReduceMax(x) R", "i = ReduceMin(x) R", "w = Sub(m, i)", "e = Add(w, #1e-3)", "d = Sub(x, i)", "q = Div(d, e)",
     "r = Sqrt(q)"},
    {"v = Mul(x, x)", "w = Mul(y, y)", "s = Add(v, w)", "r = Sqrt(s)", "f = Add(r, #1e-3)", "q = Div(x, f)"},
    {"e = Exp(x)", "f = Add(e, #1)", "q = Div(e, f)", "o = Sub(#1, q)", "l = Log(f)"},
    {"c = Clip(x, #0.1, #0.9)", "o = Sub(#1, c)", "q = Div(c, o)", "l = Log(q)"},
    {"e = Equal(x, #0)", "f = Where(e, #1, x)", "q = Reciprocal(f)"},
    {"a = Abs(x)", "c = Less(a, #0.1)", "f = Where(c, #1, x)", "q = Div(y, f)"},
    {"s = ReduceSum(x) R", "q = Div(x, s)", "t = ReduceSum(q) R", "d = Sub(#1, q)", "r = Sqrt(d)"},
    {"v = Mul(x, x)", "s = ReduceSum(v) R", "e = Max(s, #1e-6)", "r = Sqrt(e)", "i = Reciprocal(r)", "n = Mul(x, i)",
     "p = Mul(n, y)", "t = ReduceSum(p) R"},
    {"a = ReduceL2(x) R", "f = Max(a, #1e-6)", "n = Div(x, f)", "b = ReduceL2(y) R", "g = Add(b, #1e-3)",
     "m = Div(y, g)", "p = Mul(n, m)", "t = ReduceSum(p) R", "o = Sub(#1, t)", "w = Sqrt(o)"},
    {"a = Abs(x)", "b = Abs(y)", "s = Add(a, b)", "e = Add(s, #1e-3)", "q = Div(a, e)", "o = Sub(#1, q)",
     "w = Sqrt(o)"},
    {"a = Abs(x)", "m = ReduceMax(a) R", "f = Max(m, #1e-3)", "s = Div(f, #127)", "q = Div(x, s)", "t = Mul(f, #3)",
     "u = Div(x, t)"},
    {"i = Min(x, y)", "a = Max(x, y)", "e = Add(a, #1e-3)", "q = Div(i, e)", "o = Sub(#1, q)", "w = Sqrt(o)"},
    {"r = Relu(x)", "n = Neg(x)", "k = Relu(n)", "s = Add(r, k)", "d = Sub(r, k)", "t = Sub(s, x)", "q = Sqrt(t)"},
};

}  // namespace finity
