#include "support/graph_generator.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "support/graph_idioms.h"
#include "tensor/dtype.h"

namespace finity {

namespace {

const Texts kUnary = {"Exp",       "Log",      "Sqrt",        "Abs",       "Neg",   "Relu",     "Sigmoid",
                      "Tanh",      "Softplus", "Erf",         "Sign",      "Floor", "Ceil",     "Round",
                      "Sin",       "Cos",      "Atan",        "Selu",      "Elu",   "Celu",     "Reciprocal",
                      "LeakyRelu", "Softsign", "HardSigmoid", "HardSwish", "Mish",  "Identity", "ThresholdedRelu",
                      "Asinh",     "Sinh",     "Cosh",        "Acos",      "Atanh", "Tan",      "Acosh"};
const Texts kBinary = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Add", "Sub", "Mul", "Div", "Pow", "Mean"};
const Texts kReduce = {"ReduceMax", "ReduceMin",  "ReduceSum",       "ReduceMean",      "ReduceL1",
                       "ReduceL2",  "ReduceProd", "ReduceLogSumExp", "ReduceSumSquare", "ReduceLogSum"};
const Texts kCompare = {"Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"};
const Texts kNumbers = {"0",    "1",     "-1", "0.5", "2",   "3",   "1e-8", "1e-3", "0.1",  "10",
                        "-0.5", "1e-30", "88", "-20", "100", "1e4", "-1e9", "6e4",  "0.999"};
const Texts kFormats = {"float32", "float32", "float16", "bfloat16", "float64"};
const Texts kRanges = {"[-1,1]",   "[0,1]",      "[-10,10]", "[0.1,5]", "[-100,100]", "[-3,-1]",      "[-max,max]",
                       "[1e-7,1]", "[-1e4,1e4]", "[0,6e4]",  "[-5,0]",  "[0.5,0.5]",  "[-0.01,0.01]", "[1,2]"};

struct Item {
  std::string name;
  Dims dims;
};

class GraphGenerator {
 public:
  explicit GraphGenerator(std::uint64_t seed) : rng_(seed) {}

  RandomModel make() {
    format_ = pick(kFormats);
    rows_ = 1 + below(3);
    columns_ = 1 + below(4);
    RandomModel model;
    std::string inputs;
    for (std::uint64_t i = 0; i <= below(3); ++i) {
      const std::string name = "x" + std::to_string(i);
      items_.push_back({name, {size(rows_), size(columns_)}});
      inputs += (i == 0 ? "" : ", ") + name + ": " + std::string(format_) + dims_text(items_.back().dims);
      add_range(model.contract, name + ":" + range());
    }
    const std::uint64_t steps = 2 + below(6);
    for (std::uint64_t i = 0; i < steps; ++i) add_step();
    std::string outputs;
    for (const Item& item : items_) outputs += (outputs.empty() ? "" : ", ") + item.name;
    model.text = "opset 18\ngraph random (" + inputs + ") -> (" + outputs + ") {\n" + body_ + "}\n";
    return model;
  }

 private:
  // ---- choosing ------------------------------------------------------------------

  std::uint64_t below(std::uint64_t limit) { return rng_.below(limit); }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  std::string_view pick(std::span<const std::string_view> names) { return names[below(names.size())]; }
  std::int64_t size(std::uint64_t usual) { return static_cast<std::int64_t>(chance(85) ? usual : 1); }
  // Late values are taken more often, so that steps build on each other.
  const Item& any() { return items_[std::max(below(items_.size()), chance(50) ? below(items_.size()) : 0)]; }
  const Item& like(const Item& wanted) {
    for (int tries = 0; tries < 8; ++tries) {
      const Item& item = any();
      if (item.dims == wanted.dims) return item;
    }
    return wanted;
  }
  std::string range() {
    const std::string text(pick(kRanges));
    const bool narrow =
        format_ == "float16" && text.find("6e4") == std::string::npos && text.find("1e") == std::string::npos;
    return format_ != "float16" || narrow ? text : "[-30,40]";
  }
  static std::string dims_text(const Dims& dims) {
    std::string text = "[";
    for (const std::int64_t dim : dims) text += (text.size() == 1 ? "" : ", ") + std::to_string(dim);
    return text + "]";
  }

  // ---- writing -------------------------------------------------------------------

  std::string fresh() { return "v" + std::to_string(count_++); }
  void write(const std::string& result, const std::string& call) { body_ += "  " + result + " = " + call + "\n"; }
  std::string constant(std::string_view type, const Dims& dims, const std::string& elements) {
    const std::string name = fresh();
    body_ += "  const " + name + ": " + std::string(type) + dims_text(dims) + " = {" + elements + "}\n";
    return name;
  }
  std::string_view fitting(std::string_view text) const {
    return format_ == "float16" && (text == "-1e9" || text == "1e4" || text == "1e-30") ? "0.25" : text;
  }
  std::string number(std::string_view text) { return constant(format_, {}, std::string(fitting(text))); }
  Item add(Dims dims, const std::string& call) {
    Item item{fresh(), std::move(dims)};
    write(item.name, call);
    items_.push_back(item);
    return item;
  }
  static Dims broadcast(const Dims& a, const Dims& b) { return {std::max(a[0], b[0]), std::max(a[1], b[1])}; }
  static bool fit(const Dims& a, const Dims& b) {
    const auto one = [](std::int64_t m, std::int64_t n) { return m == n || m == 1 || n == 1; };
    return one(a[0], b[0]) && one(a[1], b[1]);
  }

  // ---- steps ---------------------------------------------------------------------

  void add_step() {
    const std::uint64_t kind = below(100);
    if (kind < 30) add_idiom();
    else if (kind < 45) add_unary();
    else if (kind < 62) add_binary();
    else if (kind < 72) add_reduction();
    else if (kind < 88) add_movement();
    else if (kind < 94) add_select();
    else add_layer();
  }

  void add_unary() {
    const Item x = any();
    add(x.dims, std::string(pick(kUnary)) + "(" + x.name + ")");
  }

  // Elements that differ cut the tensors they meet into cells.
  std::string row_of_numbers(std::int64_t count) {
    std::string elements;
    for (std::int64_t i = 0; i < count; ++i) elements += (i == 0 ? "" : ", ") + std::string(fitting(pick(kNumbers)));
    return constant(format_, {1, count}, elements);
  }

  void add_binary() {
    const Item a = any(), b = chance(15) ? a : any();
    const std::string op(pick(kBinary));
    if (chance(15)) {
      add(a.dims, op + "(" + a.name + ", " + row_of_numbers(a.dims[1]) + ")");
    } else if (chance(35) || !fit(a.dims, b.dims)) {
      const std::string c = number(pick(kNumbers));
      add(a.dims, op + (chance(70) ? "(" + a.name + ", " + c + ")" : "(" + c + ", " + a.name + ")"));
    } else {
      add(broadcast(a.dims, b.dims), op + "(" + a.name + ", " + b.name + ")");
    }
  }

  // ReduceX(x) over one axis or both, kept.
  Item reduce(std::string_view op, const Item& x, std::uint64_t axis) {
    Dims dims = x.dims;
    if (axis != 1) dims[0] = 1;
    if (axis != 0) dims[1] = 1;
    const std::string axes = axis == 2 ? "0, 1" : std::to_string(axis);
    const Dims count = {axis == 2 ? 2 : 1};
    if (op == "ReduceSum") return add(dims, "ReduceSum(" + x.name + ", " + constant("int64", count, axes) + ")");
    return add(dims, std::string(op) + ":13(" + x.name + ") {axes = [" + axes + "]}");
  }
  void add_reduction() { reduce(pick(kReduce), Item(any()), below(3)); }

  void add_select() {
    const Item a = any(), b = like(a), x = like(a), y = like(a);
    const std::string condition = fresh();
    const std::string limit = chance(50) ? number(pick(kNumbers)) : b.name;
    write(condition, std::string(pick(kCompare)) + "(" + a.name + ", " + limit + ")");
    const std::string other = chance(40) ? number(pick(kNumbers)) : y.name;
    add(a.dims, "Where(" + condition + ", " + (chance(70) ? x.name + ", " + other : other + ", " + x.name) + ")");
  }

  void add_movement() {
    const Item x = any();
    const std::string& name = x.name;
    const std::int64_t r = x.dims[0], c = x.dims[1];
    switch (below(10)) {
      case 8: add({r, c + 1}, "Pad(" + name + ", " + constant("int64", {4}, "0, 0, 0, 1") + ")"); break;
      case 9: add(x.dims, "Trilu(" + name + ") {upper = " + (chance(50) ? "0" : "1") + "}"); break;
      case 0: add({c, r}, "Transpose(" + name + ") {perm = [1, 0]}"); break;
      case 1: add({c, r}, "Reshape(" + name + ", " + constant("int64", {2}, list(c, r)) + ")"); break;
      case 2: add(x.dims, "Reshape(" + name + ", " + constant("int64", {2}, list(r, c)) + ")"); break;
      case 3: slice(x); break;
      case 4: {
        const Item y = like(x);
        add({r, 2 * c}, "Concat(" + name + ", " + y.name + ") {axis = 1}");
        break;
      }
      case 5: add(x.dims, "Gather(" + name + ", " + constant("int64", {c}, indices(c)) + ") {axis = 1}"); break;
      case 6: add({2 * r, c}, "Tile(" + name + ", " + constant("int64", {2}, "2, 1") + ")"); break;
      default: split(x); break;
    }
  }
  static std::string list(std::int64_t a, std::int64_t b) { return std::to_string(a) + ", " + std::to_string(b); }
  std::string indices(std::int64_t count) {
    std::string text;
    for (std::int64_t i = 0; i < count; ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(below(static_cast<std::uint64_t>(count)));
    return text;
  }
  void slice(const Item& x) {
    const bool backwards = chance(40);
    const std::int64_t c = x.dims[1];
    const std::int64_t first = backwards || c == 1 ? 0 : static_cast<std::int64_t>(below(2));
    const std::string starts = constant("int64", {1}, backwards ? "-1" : std::to_string(first));
    const std::string ends = constant("int64", {1}, backwards ? "-1000" : "1000");
    const std::string axes = constant("int64", {1}, "1"), steps = constant("int64", {1}, backwards ? "-1" : "1");
    add({x.dims[0], c - first}, "Slice(" + x.name + ", " + starts + ", " + ends + ", " + axes + ", " + steps + ")");
  }
  void split(const Item& x) {
    if (x.dims[1] < 2) return;
    const std::int64_t left = 1, right = x.dims[1] - 1;
    const std::string sizes = constant("int64", {2}, list(left, right));
    const Item a{fresh(), {x.dims[0], left}}, b{fresh(), {x.dims[0], right}};
    write(a.name + ", " + b.name, "Split(" + x.name + ", " + sizes + ") {axis = 1}");
    items_.push_back(a);
    items_.push_back(b);
  }

  void add_layer() {
    const Item x = any();
    const std::string axis = chance(50) ? "0" : "1";
    switch (below(21)) {
      case 19: table(x); break;
      case 20: chosen_rows(x); break;
      case 17:
      case 18: integers(x); break;
      case 13:
      case 14: narrow_block(x); break;
      case 15:
      case 16: reduce_away(x); break;
      case 6: normalize(x); break;
      case 7: narrow(x); break;
      case 8: add({x.dims[0], 1}, "ReduceMax:13(" + guarded(x) + ") {axes = [1]}"); break;
      case 9: branch(x); break;
      case 10: loop(x); break;
      case 11: one_hot(x); break;
      case 12: {
        const Item y = like(x);
        add(x.dims, "Mod(" + x.name + ", " + y.name + ") {fmod = 1}");
        break;
      }
      case 0: add(x.dims, "Softmax(" + x.name + ") {axis = " + axis + "}"); break;
      case 1: add(x.dims, "LogSoftmax(" + x.name + ") {axis = " + axis + "}"); break;
      case 2: add(x.dims, "CumSum(" + x.name + ", " + constant("int64", {}, axis) + ")"); break;
      case 3: {
        const Item y = like(x);
        const std::string turned = fresh();
        write(turned, "Transpose(" + y.name + ") {perm = [1, 0]}");
        add({x.dims[0], x.dims[0]}, "MatMul(" + x.name + ", " + turned + ")");
        break;
      }
      case 4: {
        const std::string low = number(chance(50) ? "-0.5" : pick(kNumbers)), high = number(pick(kNumbers));
        add(x.dims, "Clip(" + x.name + ", " + low + ", " + high + ")");
        break;
      }
      default: add(x.dims, "LpNormalization(" + x.name + ") {axis = " + axis + "}"); break;
    }
  }

  void normalize(const Item& x) {
    const std::string scale = row_of_numbers(x.dims[1]);
    if (chance(50)) add(x.dims, "LayerNormalization(" + x.name + ", " + scale + ") {axis = -1}");
    else add(x.dims, "Gelu:20(" + x.name + ")");
  }
  // To another format and back.
  void narrow(const Item& x) {
    const std::string there = fresh();
    write(there, "Cast(" + x.name + ") {to = " + std::string(chance(50) ? "10" : "16") + "}");
    const std::string like_it = constant(format_, {}, "0");
    add(x.dims, "CastLike(" + there + ", " + like_it + ")");
  }
  // Whole numbers, some of which wrap, and back.
  void integers(const Item& x) {
    struct Kind {
      std::string_view name, code, large;
    };
    static const std::vector<Kind> kKinds = {
        {"int8", "3", "64"}, {"uint8", "2", "100"}, {"int32", "6", "1073741824"}, {"int32", "6", "3"}};
    Kind kind = kKinds[below(kKinds.size())];
    const std::string clipped = fresh(), low = number("-100"), high = number("100");
    write(clipped, "Clip(" + x.name + ", " + low + ", " + high + ")");
    std::string now = fresh();
    write(now, "Cast(" + clipped + ") {to = " + std::string(kind.code) + "}");
    Dims dims = x.dims;
    const auto apply = [&](const std::string& call) {
      now = fresh();
      write(now, call);
    };
    for (std::uint64_t steps = 1 + below(4); steps > 0; --steps) {
      const std::string large = constant(kind.name, {}, std::string(kind.large)), extreme = fresh();
      switch (below(7)) {
        case 0:
          write(extreme, std::string(chance(70) ? "ReduceMax" : "ReduceMin") + ":13(" + now + ") {axes = [1]}");
          apply(chance(80) ? "Sub(" + now + ", " + extreme + ")" : "Add(" + extreme + ", " + now + ")");
          break;
        case 1: apply("Mul(" + now + ", " + large + ")"); break;
        case 2: apply("Mul(" + now + ", " + now + ")"); break;
        case 3: apply(std::string(chance(50) ? "Add(" : "Sub(") + now + ", " + large + ")"); break;
        case 4: apply("Abs(" + now + ")"); break;
        case 5:
          kind = kKinds[below(2)];
          apply("Cast(" + now + ") {to = " + std::string(kind.code) + "}");
          break;
        default:
          dims[1] = 1;
          apply(std::string(chance(50) ? "ReduceMax" : "ReduceMin") + ":13(" + now + ") {axes = [1]}");
      }
    }
    add(dims, "CastLike(" + now + ", " + constant(format_, {}, "0") + ")");
  }
  // Something computed in a narrower format, beside what it was computed from.
  void narrow_block(const Item& x) {
    static const Texts kInside = {"Mul", "ReduceMean", "ReduceL2", "Exp", "ReduceSumSquare", "ReduceMax"};
    const std::string narrowed = fresh(), inner = fresh(), like_it = constant(format_, {}, "0");
    write(narrowed, "Cast(" + x.name + ") {to = " + std::string(chance(50) ? "10" : "16") + "}");
    const std::string op(pick(kInside));
    Dims dims = x.dims;
    if (op.starts_with("Reduce")) {
      dims[1] = 1;
      write(inner, op + ":13(" + narrowed + ") {axes = [1]}");
    } else {
      write(inner, op + "(" + narrowed + (op == "Mul" ? ", " + narrowed : "") + ")");
    }
    add(x.dims, "CastLike(" + narrowed + ", " + like_it + ")");
    add(dims, "CastLike(" + inner + ", " + like_it + ")");
  }
  // Reduced without its axis, perhaps combined with something, and given an axis again.
  void reduce_away(const Item& x) {
    const std::string reduced = fresh();
    std::string_view op = pick(kReduce);
    if (op == "ReduceSum") op = "ReduceL1";
    write(reduced, std::string(op) + ":13(" + x.name + ") {axes = [1], keepdims = 0}");
    const Item z = any();
    if (chance(50) && (z.dims[1] == x.dims[0] || z.dims[1] == 1)) {
      add({z.dims[0], x.dims[0]}, std::string(pick(kBinary)) + "(" + reduced + ", " + z.name + ")");
      return;
    }
    const bool leading = chance(50);
    const std::string axes = constant("int64", {1}, leading ? "0" : "1");
    add(leading ? Dims{1, x.dims[0]} : Dims{x.dims[0], 1}, "Unsqueeze(" + reduced + ", " + axes + ")");
  }
  // Masked where not positive.
  std::string guarded(const Item& x) {
    const std::string condition = fresh(), masked = fresh(), zero = number("0"), low = number("-100");
    write(condition, "Greater(" + x.name + ", " + zero + ")");
    write(masked, "Where(" + condition + ", " + x.name + ", " + low + ")");
    return masked;
  }
  void branch(const Item& x) {
    const std::string most = fresh(), condition = fresh(), limit = number(pick(kNumbers));
    write(most, "ReduceMax:13(" + x.name + ") {keepdims = 0}");
    write(condition, std::string(pick(kCompare)) + "(" + most + ", " + limit + ")");
    const auto side = [&](const std::string& name) {
      return "graph () -> (" + name + ") { " + name + " = " + std::string(pick(kUnary)) + "(" + like(x).name + ") }";
    };
    const std::string yes = side(fresh()), no = side(fresh());
    add(x.dims, "If(" + condition + ") {then_branch = " + yes + ", else_branch = " + no + "}");
  }
  void loop(const Item& x) {
    const std::string trips = constant("int64", {}, std::to_string(below(4)));
    const std::string go = fresh(), on = fresh(), now = fresh(), next = fresh(), step = fresh();
    const std::string first =
        "(" + step + ": int64[], " + go + ": bool[], " + now + ": " + std::string(format_) + dims_text(x.dims) + ")";
    std::string update = next + " = " + std::string(pick(kBinary)) + "(" + now + ", " + like(x).name + ")";
    if (chance(50)) {  // where it is larger than something, a function of it
      const std::string condition = fresh(), value = fresh(), taken = fresh();
      update = condition + " = Greater(" + now + ", " + like(x).name + ")  " + value + " = " +
               std::string(pick(kUnary)) + "(" + now + ")  " + taken + " = Where(" + condition + ", " + value + ", " +
               now + ")  " + next + " = Add(" + taken + ", " + number(pick(kNumbers)) + ")";
    }
    add(x.dims, "Loop(" + trips + ", _, " + x.name + ") {body = graph " + first + " -> (" + on + ", " + next + ") { " +
                    on + " = Identity(" + go + ")  " + update + " }}");
  }
  std::string matrix(std::int64_t rows, std::int64_t columns) {
    std::string elements;
    for (std::int64_t i = 0; i < rows * columns; ++i)
      elements += (i == 0 ? "" : ", ") + std::string(fitting(pick(kNumbers)));
    return constant(format_, {rows, columns}, elements);
  }
  // Rows of a constant table, which data choose.
  void table(const Item& x) {
    const std::string which = fresh();
    write(which, "ArgMax(" + x.name + ") {axis = 1, keepdims = 0}");
    const std::int64_t columns = 1 + static_cast<std::int64_t>(below(4));
    add({x.dims[0], columns}, "Gather(" + matrix(x.dims[1], columns) + ", " + which + ") {axis = 0}");
  }
  // The same by a product with ones and zeros.
  void chosen_rows(const Item& x) {
    const std::string which = fresh(), hot = fresh(), depth = constant("int64", {}, std::to_string(x.dims[1]));
    write(which, "ArgMax(" + x.name + ") {axis = 1, keepdims = 0}");
    write(hot, "OneHot(" + which + ", " + depth + ", " + constant(format_, {2}, "0, 1") + ") {axis = -1}");
    const std::int64_t columns = 1 + static_cast<std::int64_t>(below(4));
    add({x.dims[0], columns}, "MatMul(" + hot + ", " + matrix(x.dims[1], columns) + ")");
  }
  void one_hot(const Item& x) {
    const std::string which = fresh(), hot = fresh(), depth = constant("int64", {}, std::to_string(x.dims[1]));
    write(which, "ArgMax(" + x.name + ") {axis = 1, keepdims = 0}");
    const std::string values = constant(format_, {2}, "0, 1");
    write(hot, "OneHot(" + which + ", " + depth + ", " + values + ") {axis = -1}");
    add(x.dims, "Mul(" + x.name + ", " + hot + ")");
  }

  // ---- idioms --------------------------------------------------------------------

  void add_idiom() {
    const Texts& steps = kIdioms[below(kIdioms.size())];
    const Item x = any();
    known_ = {{'x', x}, {'y', like(x)}};
    axis_ = below(2);
    for (const std::string_view step : steps) add_idiom_step(step);
  }

  // "s = ReduceSum(e) R", "e = Add(s, #1e-5)".
  void add_idiom_step(std::string_view step) {
    const char result = step[0];
    const std::string_view op = step.substr(4, step.find('(') - 4);
    const std::string_view inside = step.substr(step.find('(') + 1, step.find(')') - step.find('(') - 1);
    std::string operands;
    Dims dims = {1, 1};
    std::size_t at = 0;
    Item first;
    while (at <= inside.size()) {
      const std::size_t end = std::min(inside.find(", ", at), inside.size());
      const std::string_view word = inside.substr(at, end - at);
      at = end + 2;
      const bool literal = word[0] == '#';
      const Item item = literal ? Item{number(chance(20) ? pick(kNumbers) : word.substr(1)), {1, 1}} : known(word[0]);
      if (!fit(dims, item.dims)) return;
      dims = broadcast(dims, item.dims);
      if (operands.empty()) first = item;
      operands += (operands.empty() ? "" : ", ") + item.name;
    }
    const std::uint64_t axis = chance(8) ? 1 - axis_ : axis_;
    if (step.back() == 'R') known_[result] = reduce(op, first, axis);
    else if (is_comparison(op)) {
      known_[result] = {fresh(), dims};
      write(known_[result].name, std::string(op) + "(" + operands + ")");
    } else {
      const std::string attributes = step.back() == 'A' ? " {axis = " + std::to_string(axis) + "}" : "";
      known_[result] = add(dims, std::string(op) + "(" + operands + ")" + attributes);
    }
    if (result == 'c' || (result == 'e' && op == "Equal")) conditions_ += known_[result].name + " ";
  }
  static bool is_comparison(std::string_view op) { return std::ranges::find(kCompare, op) != kCompare.end(); }

  // What the idiom calls so, or, to see whether a false friend is believed, another value of that shape.
  Item known(char name) {
    const auto found = known_.find(name);
    const Item item = found == known_.end() ? any() : found->second;
    const bool condition = conditions_.find(item.name + " ") != std::string::npos;
    return condition || !chance(8) ? item : like(item);
  }

  Rng rng_;
  std::string_view format_;
  std::uint64_t rows_ = 1, columns_ = 1;
  std::vector<Item> items_;
  std::string body_;
  std::string conditions_;
  int count_ = 0;
  std::map<char, Item> known_;
  std::uint64_t axis_ = 0;
};

}  // namespace

RandomModel random_model(std::uint64_t seed) { return GraphGenerator(seed).make(); }

}  // namespace finity
