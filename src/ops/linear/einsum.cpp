// Einsum. The equation becomes a list of labels: those of the output, then those
// summed over. With the step of every operand along every label (0 where it does
// not have it, the sum of two where it has it twice) a result is
//   out[o] = sum over s of  product over operands of  x[offset(o) + offset(s)]
#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "ops/linear/contract_range.h"
#include "ops/linear/dot.h"
#include "ops/linear/linear_gradient.h"
#include "ops/linear/matmul_range.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// A label is a letter, or an axis of the ellipsis counted from its end: kEllipsis - 1 is the last one.
using Label = int;
constexpr Label kEllipsis = 1'000'000;
using Term = std::vector<Label>;

struct Equation {
  std::vector<Term> inputs = {};
  Term output = {};
};

// One term; the ellipsis stands for `broadcast_axes` labels.
Term parse_term(std::string_view text, std::size_t broadcast_axes) {
  Term term;
  bool seen = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      term.push_back(c);
    } else if (text.substr(i).starts_with("...") && !seen) {
      for (std::size_t k = broadcast_axes; k > 0; --k) term.push_back(kEllipsis - static_cast<Label>(k));
      seen = true;
      i += 2;
    } else {
      throw Error("attribute 'equation' has an unexpected '" + std::string(1, c) + "'");
    }
  }
  return term;
}

bool has_ellipsis(std::string_view text) { return text.find("...") != std::string_view::npos; }

// The ellipsis takes the axes that the letters leave over.
Term parse_input(std::string_view text, std::size_t rank) {
  const std::size_t letters = parse_term(text, 0).size();
  if (letters > rank || (letters < rank && !has_ellipsis(text))) {
    throw Error("attribute 'equation' has the term '" + std::string(text) + "' for an input of rank " +
                std::to_string(rank));
  }
  return parse_term(text, rank - letters);
}

std::vector<std::string> split_terms(std::string_view text) {
  std::vector<std::string> terms{""};
  for (const char c : text) {
    if (c == ',') terms.emplace_back();
    else terms.back() += c;
  }
  return terms;
}

std::size_t occurrences(const Equation& equation, Label label) {
  std::size_t count = 0;
  for (const Term& term : equation.inputs) count += static_cast<std::size_t>(std::ranges::count(term, label));
  return count;
}

// The labels in order of first appearance.
Term all_labels(const Equation& equation) {
  Term labels;
  for (const Term& term : equation.inputs) {
    for (const Label label : term) {
      if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
    }
  }
  return labels;
}

// Without "->": the ellipsis, then the letters that occur once, in the order of their codes.
Term implicit_output(const Equation& equation) {
  Term ellipsis, letters;
  for (const Label label : all_labels(equation)) {
    if (label > 'z') ellipsis.push_back(label);
    else if (occurrences(equation, label) == 1) letters.push_back(label);
  }
  std::ranges::sort(ellipsis);
  std::ranges::sort(letters);
  ellipsis.insert(ellipsis.end(), letters.begin(), letters.end());
  return ellipsis;
}

Term explicit_output(const Equation& equation, std::string_view text) {
  const Term labels = all_labels(equation);
  const auto broadcast_axes =
      static_cast<std::size_t>(std::ranges::count_if(labels, [](Label label) { return label > 'z'; }));
  Term output = parse_term(text, broadcast_axes);
  for (const Label label : output) {
    if (std::ranges::find(labels, label) == labels.end() || std::ranges::count(output, label) != 1) {
      throw Error("attribute 'equation' has an output label that no input has, or twice");
    }
  }
  return output;
}

Equation parse_equation(const Call& call, std::span<const std::size_t> ranks) {
  std::string text = call.text("equation");
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  const std::vector<std::string> terms = split_terms(text.substr(0, arrow));
  if (terms.size() != ranks.size()) {
    throw Error("attribute 'equation' has " + std::to_string(terms.size()) + " terms for " +
                std::to_string(ranks.size()) + " inputs");
  }
  Equation equation;
  for (std::size_t i = 0; i < terms.size(); ++i) equation.inputs.push_back(parse_input(terms[i], ranks[i]));
  equation.output =
      arrow == std::string::npos ? implicit_output(equation) : explicit_output(equation, text.substr(arrow + 2));
  return equation;
}

// What all operands say about the label's size; a size of 1 repeats.
Dim label_dim(const Equation& equation, std::span<const Shape> shapes, Label label) {
  Dim result = Dim::of(1);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Dim own = Dim::of(1);
    for (std::size_t axis = 0; axis < equation.inputs[i].size(); ++axis) {
      if (equation.inputs[i][axis] != label) continue;
      const Dim& dim = shapes[i][axis];
      if (own.known() && dim.known() && own.size != 1 && own.size != dim.size) {
        throw Error("attribute 'equation' repeats a label on axes of sizes " + std::to_string(own.size) + " and " +
                    std::to_string(dim.size));
      }
      own = dim;
    }
    result = broadcast(Shape{result}, Shape{own})[0];
  }
  return result;
}

void infer_einsum(InferCall& call) {
  std::vector<std::size_t> ranks;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.ranked(i)) return;
    ranks.push_back(call.rank(i));
    shapes.push_back(call.shape(i));
  }
  const Equation equation = parse_equation(call, ranks);
  for (const Label label : all_labels(equation)) label_dim(equation, shapes, label);
  Shape output;
  for (const Label label : equation.output) output.push_back(label_dim(equation, shapes, label));
  call.set_shape(0, std::move(output));
}

// Along one label: its size and every operand's step.
struct Loop {
  std::int64_t size = 1;
  std::vector<std::int64_t> steps = {};
};

Loop loop_over(const Equation& equation, std::span<const Shape> shapes, std::span<const Dims> dims, Label label) {
  Loop loop{label_dim(equation, shapes, label).size, std::vector<std::int64_t>(dims.size(), 0)};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::vector<std::int64_t> strides = strides_of(dims[i]);
    for (std::size_t axis = 0; axis < strides.size(); ++axis) {
      if (equation.inputs[i][axis] == label && dims[i][axis] != 1) loop.steps[i] += strides[axis];
    }
  }
  return loop;
}

Dims sizes_of(std::span<const Loop> loops) {
  Dims sizes;
  for (const Loop& loop : loops) sizes.push_back(loop.size);
  return sizes;
}

// The offset of one operand for every index of the loops, row-major.
std::vector<std::int64_t> offsets(std::span<const Loop> loops, std::size_t operand) {
  std::vector<std::int64_t> result;
  result.reserve(result_count(sizes_of(loops)));
  for (IndexCounter at(sizes_of(loops)); at.valid(); at.next()) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < loops.size(); ++i) offset += at.index()[i] * loops[i].steps[operand];
    result.push_back(offset);
  }
  return result;
}

struct Nest {
  std::vector<Loop> outer = {};  // of the output
  std::vector<Loop> summed = {};
  Loop inner = {};  // the last of the summed ones, run without a table
};

Nest make_nest(const Equation& equation, std::span<const Dims> dims) {
  std::vector<Shape> shapes;
  for (const Dims& each : dims) shapes.push_back(Type::tensor_of(DType::undefined, each).shape);
  Nest nest;
  for (const Label label : equation.output) nest.outer.push_back(loop_over(equation, shapes, dims, label));
  for (const Label label : all_labels(equation)) {
    if (std::ranges::find(equation.output, label) != equation.output.end()) continue;
    nest.summed.push_back(loop_over(equation, shapes, dims, label));
  }
  nest.inner = Loop{1, std::vector<std::int64_t>(dims.size(), 0)};
  if (!nest.summed.empty()) {
    nest.inner = nest.summed.back();
    nest.summed.pop_back();
  }
  return nest;
}

template <class A>
using Operands = std::vector<std::vector<A>>;

// sum over i < count of the product of all operands at `at` + i * steps.
template <class A>
A sum_products(A sum, const Operands<A>& x, std::span<const std::int64_t> at, const Loop& inner) {
  if (x.size() == 2) {
    const A* a = x[0].data() + at[0];
    const A* b = x[1].data() + at[1];
    for (std::int64_t i = 0; i < inner.size; ++i) sum += a[i * inner.steps[0]] * b[i * inner.steps[1]];
    return sum;
  }
  for (std::int64_t i = 0; i < inner.size; ++i) {
    A product = x[0][static_cast<std::size_t>(at[0] + i * inner.steps[0])];
    for (std::size_t k = 1; k < x.size(); ++k) {
      product *= x[k][static_cast<std::size_t>(at[k] + i * inner.steps[k])];
    }
    sum += product;
  }
  return sum;
}

template <class A>
std::vector<A> contract(const Operands<A>& x, const Nest& nest) {
  std::vector<std::vector<std::int64_t>> outer, summed;
  for (std::size_t k = 0; k < x.size(); ++k) {
    outer.push_back(offsets(nest.outer, k));
    summed.push_back(offsets(nest.summed, k));
  }
  std::vector<A> result(outer[0].size());
  std::vector<std::int64_t> at(x.size());
  for (std::size_t o = 0; o < result.size(); ++o) {
    A sum{};
    for (std::size_t s = 0; s < summed[0].size(); ++s) {
      for (std::size_t k = 0; k < x.size(); ++k) at[k] = outer[k][o] + summed[k][s];
      sum = sum_products(sum, x, at, nest.inner);
    }
    result[o] = sum;
  }
  return result;
}

void eval_einsum(EvalCall& call) {
  std::vector<std::size_t> ranks;
  std::vector<Dims> dims;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    ranks.push_back(call.in(i).rank());
    dims.push_back(call.in(i).dims());
  }
  const Nest nest = make_nest(parse_equation(call, ranks), dims);
  const DType dtype = call.in(0).dtype();
  call.out(0, with_dot_type(dtype, [&]<class A>() {
             Operands<A> x;
             for (std::size_t i = 0; i < dims.size(); ++i) x.push_back(elements<A>(call.in(i)));
             return from_elements<A>(dtype, sizes_of(nest.outer), contract(x, nest));
           }));
}

// ---- ranges --------------------------------------------------------------------

std::int64_t label_size(const RangeCall& call, const Equation& equation, Label label) {
  std::int64_t size = 1;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    for (std::size_t axis = 0; axis < equation.inputs[i].size(); ++axis) {
      if (equation.inputs[i][axis] == label) size = broadcast_size(size, call.in(i).sizes[axis]);
    }
  }
  return size;
}

double most_along(const RangeCall& call, const Equation& equation, Label label) {
  double most = 1;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    for (std::size_t axis = 0; axis < equation.inputs[i].size(); ++axis) {
      if (equation.inputs[i][axis] == label) most = std::max(most, call.in(i).size_limits(axis).most);
    }
  }
  return most;
}

bool repeats_label(const Term& term) {
  return std::ranges::any_of(term, [&](Label label) { return std::ranges::count(term, label) > 1; });
}

int axis_of(const Term& term, Label label) {
  const auto found = std::ranges::find(term, label);
  return found == term.end() ? -1 : static_cast<int>(found - term.begin());
}

Contraction contraction_of(const RangeCall& call, const Equation& equation) {
  Contraction result;
  const auto axis = [&](Label label) {
    return ContractedAxis{axis_of(equation.inputs[0], label), axis_of(equation.inputs[1], label),
                          label_size(call, equation, label)};
  };
  for (const Label label : equation.output) result.out.push_back(axis(label));
  for (const Label label : all_labels(equation)) {
    if (std::ranges::find(equation.output, label) == equation.output.end()) result.summed.push_back(axis(label));
  }
  return result;
}

// Axes that only one operand has, summed before anything is multiplied: such a sum may overflow where no product does.
bool presum_overflows(const RangeCall& call, const Equation& equation) {
  const DType dtype = call.out_dtype(0);
  if (!is_float(dtype)) return false;
  const auto has = [](const Term& term, Label label) { return std::ranges::find(term, label) != term.end(); };
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    double most = 1;
    for (const Label label : equation.inputs[i]) {
      bool alone = !has(equation.output, label);
      for (std::size_t k = 0; k < equation.inputs.size(); ++k) alone &= k == i || !has(equation.inputs[k], label);
      const std::int64_t size = label_size(call, equation, label);
      if (alone) most *= size >= 0 ? static_cast<double>(size) : kManyElements;
    }
    DotSum sum;
    add_products(sum, call.hull(i).finite(), point(1), 0, std::min(most, kManyElements));
    const Range reached = partial_sums(call, call.accumulators(dtype).back(), sum, most);
    if (reached.pinf || reached.ninf) return true;
  }
  return false;
}

// Products of any number of operands, added so many times. Whatever is multiplied first may overflow or underflow.
DotSum many_products(const RangeCall& call, double least, double most) {
  double largest = most;
  double magnitude = 1;
  Range product = point(1);
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    product = multiply(DType::float64, product, call.hull(i));
    largest *= std::max(1.0, call.hull(i).magnitude());
    magnitude *= call.hull(i).magnitude();
  }
  DotSum sum;
  add_products(sum, product, point(1), least, most);
  sum.magnitude = most * magnitude;
  const DType dtype = call.out_dtype(0);
  if (!is_float(dtype)) return sum;
  const double lost = largest * static_cast<double>(call.input_count()) * min_subnormal(dtype);
  // Underflow never changes a sign.
  sum.lo = sum.below < 0 ? sum.lo - lost : std::max(sum.lo - lost, 0.0);
  sum.hi = sum.above > 0 ? sum.hi + lost : std::min(sum.hi + lost, 0.0);
  if (!(largest < max_finite(dtype) / 2)) sum.nan = sum.pinf = sum.ninf = true;
  return sum;
}

void range_einsum(RangeCall& call) {
  std::vector<std::size_t> ranks;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.in(i).ranked) ranks.push_back(call.in(i).rank());
  }
  double least = 0, most = kManyElements;
  if (ranks.size() == call.input_count()) {
    const Equation equation = parse_equation(call, ranks);
    const bool plain = ranks.size() == 2 && std::ranges::none_of(equation.inputs, repeats_label);
    if (plain) {
      const std::optional<Weights> right = weights_of(call, 1);
      const std::optional<Weights> left = right ? std::nullopt : weights_of(call, 0);
      const Contracted product = contract(call, {&call.in(0), left ? &*left : nullptr, {}},
                                          {&call.in(1), right ? &*right : nullptr, {}}, contraction_of(call, equation));
      AbsTensor result = rounded(call, call.out_type(0), product.sums);
      if (call.may(Way::sums_first) && presum_overflows(call, equation)) {
        call.besides(0, {.nan = true, .pinf = true, .ninf = true});
      }
      return call.out(0, std::move(result));
    }
    least = most = 1;
    for (const Label label : all_labels(equation)) {
      if (std::ranges::find(equation.output, label) != equation.output.end()) continue;
      const std::int64_t size = label_size(call, equation, label);
      least *= size >= 0 ? static_cast<double>(size) : 0;
      most *= size >= 0 ? static_cast<double>(size) : most_along(call, equation, label);
    }
    if (ranks.size() == 1 && least == 1 && most == 1) return call.out(0, call.hull(0));
  }
  const double terms = most + static_cast<double>(call.input_count());
  call.out(0, rounded(call, call.out_dtype(0), many_products(call, least, most), terms));
}

// ---- drawing ---------------------------------------------------------------

// An equation whose first operand has so many axes; the second has the sizes that it asks for.
bool draw_einsum(DrawCall& call) {
  constexpr std::array kOne = {"i->", "i->i", "i,i->", "i,j->ij"};
  constexpr std::array kTwo = {"ij->ji",   "ij->j",   "ij,jk->ik", "ij,kj->ik",
                               "ij,ij->i", "ij,ij->", "ii->i",     "ij,k->ikj"};
  constexpr std::array kThree = {"bij->bji", "bij,bjk->bik", "bij,jk->bik", "bij,bkj->bki", "bij->i", "bii->bi"};
  if (call.rank() < 1 || call.rank() > 3) return false;
  const auto pick = [&](const auto& list) { return std::string(list[call.rng().below(list.size())]); };
  const std::string text = call.rank() == 1 ? pick(kOne) : call.rank() == 2 ? pick(kTwo) : pick(kThree);
  call.attrs().set("equation", text);
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) return true;
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < call.dims().size(); ++i) sizes[text[i]] = call.dims()[i];
  Dims other;
  for (std::size_t i = comma + 1; text[i] != '-'; ++i) {
    if (!sizes.contains(text[i])) sizes[text[i]] = call.size();
    other.push_back(sizes[text[i]]);
  }
  call.add(call.draw(call.dtype(), other), 50);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "Einsum",
                  .since = 12,
                  .summary = "sum of products of operands over the labels that the output does not have",
                  .signature = "(Inputs...: T) -> (Output: T) where T: number",
                  .attrs = "equation: string",
                  .tf = "Einsum"},
     .meaning =
         {.infer = infer_einsum,
          .eval = eval_einsum,
          .freedom =
              "one sum over all products, in the order in which the labels appear, in float32 (float64 for float64), "
              "rounded once"},
     .analysis = {.range = range_einsum,
                  .vjp = einsum_gradient,
                  .overflow = "FN204",
                  .grants = {.ways = {Way::sums_first}, .measured_on = kOnnxRuntime}},
     .traits = {.linear = true},
     .drawing = {.operands = draw_einsum}},
};

}  // namespace

std::span<const OpDef> einsum_ops() { return kOps; }

}  // namespace finity
