#include "support/check_case.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "formats/text/text.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {

namespace {

struct Line {
  int number = 0;
  std::string text = {};  // without comment and outer blanks
};

using Row = std::vector<std::pair<std::string, std::string>>;  // $name -> text

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Reads the parts of one line from left to right.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(trimmed(text)) {}

  bool at_end() { return trimmed(rest()).empty(); }
  std::string rest() const { return text_.substr(place_); }
  std::string word() {
    skip();
    const std::size_t start = place_;
    while (place_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[place_])) == 0) ++place_;
    if (start == place_) throw Error("something is missing at the end of '" + text_ + "'");
    return text_.substr(start, place_ - start);
  }
  bool accept(std::string_view word) {
    skip();
    if (text_.compare(place_, word.size(), word) != 0) return false;
    place_ += word.size();
    return true;
  }
  // Up to and without the mark, which is taken.
  std::string until(char mark) {
    skip();
    const std::size_t end = text_.find(mark, place_);
    if (end == std::string::npos) throw Error(std::string("expected '") + mark + "' in '" + text_ + "'");
    std::string part = trimmed(std::string_view(text_).substr(place_, end - place_));
    place_ = end + 1;
    return part;
  }

 private:
  void skip() {
    while (place_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[place_])) != 0) ++place_;
  }
  std::string text_;
  std::size_t place_ = 0;
};

double number(const std::string& text) {
  if (text == "inf" || text == "+inf") return kInf;
  if (text == "-inf") return -kInf;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw Error("'" + text + "' is not a number");
  return value;
}

std::pair<double, double> bounds(Scanner& in) {
  if (!in.accept("[")) throw Error("expected '[lo, hi]' before '" + in.rest() + "'");
  const double lo = number(in.until(','));
  return {lo, number(in.until(']'))};
}

void read_values(Scanner& in, InputContract& contract) {
  std::istringstream list(in.until('}'));
  for (std::string item; std::getline(list, item, ',');) contract.values.push_back(number(trimmed(item)));
}

// What follows the name and type of an input or weight.
InputContract read_promises(Scanner& in, const std::string& name) {
  InputContract contract;
  contract.pattern = name;
  while (!in.at_end()) {
    if (in.accept("in {")) {
      read_values(in, contract);
    } else if (in.accept("in ")) {
      const auto [lo, hi] = bounds(in);
      contract.lo = lo;
      contract.hi = hi;
    } else if (in.accept("integer")) {
      contract.integer = true;
    } else if (in.accept("may-nan")) {
      contract.allow_nan = true;
    } else if (in.accept("may-inf")) {
      contract.allow_inf = true;
    } else if (in.accept("one-true ")) {
      contract.one_true_axis = static_cast<int>(number(in.word()));
    } else if (in.accept("sums-to-one ")) {
      contract.sums_to_one_axis = static_cast<int>(number(in.word()));
    } else if (in.accept("column ")) {
      const auto column = static_cast<std::int64_t>(number(in.word()));
      contract.columns[column] = bounds(in);
    } else {
      throw Error("cannot read '" + in.rest() + "'");
    }
  }
  return contract;
}

// One row of one case while it is read.
class CaseReader {
 public:
  CaseReader(CheckCase& result, const std::string& opset) : case_(result), opset_(opset) {}

  void read(const std::vector<Line>& lines) {
    for (const Line& line : lines) {
      try {
        read_line(line);
      } catch (Error& error) {
        error.in(case_.file + ":" + std::to_string(line.number));
        throw;
      }
    }
    case_.graph = parse_graph(graph_text(lines.front().number), case_.file);
    for (const auto& [line, text] : witnesses_) read_witness(line, text);
  }

 private:
  void read_line(const Line& line) {
    Scanner in(line.text);
    if (depth_ > 0) return add_statement(line);
    if (in.accept("input ")) return read_input(in);
    if (in.accept("declare ")) return read_declaration(in);
    if (in.accept("output ")) return void(asked_ += (asked_.empty() ? "" : ", ") + trimmed(in.rest()));
    if (in.accept("assumes ")) return case_.assumptions.push_back(trimmed(in.rest()));
    if (in.accept("order ")) return read_order(in);
    if (in.accept("weights ")) return read_weights(in.word());
    if (in.accept("option ")) return read_option(in);
    if (in.accept("witness ")) return void(witnesses_.emplace_back(line.number, in.rest()));
    if (!read_expectation(line)) add_statement(line);
  }

  void read_input(Scanner& in) {
    const std::string name = in.until(':');
    const std::string type = in.until(']') + "]";
    inputs_ += (inputs_.empty() ? "" : ", ") + name + ": " + type;
    types_[name] = type;
    promise(in, name);
  }
  void read_declaration(Scanner& in) {
    const std::string name = in.word();
    promise(in, name);
  }
  void promise(Scanner& in, const std::string& name) {
    if (!in.at_end()) case_.contract.inputs.push_back(read_promises(in, name));
  }
  void read_order(Scanner& in) {
    OrderContract order;
    order.greater = in.word();
    if (in.word() != ">=") throw Error("expected 'order a >= b'");
    order.smaller = in.word();
    case_.contract.orders.push_back(order);
  }
  void read_weights(const std::string& mode) {
    static const std::map<std::string, WeightMode> modes = {
        {"trained", WeightMode::trained}, {"initial", WeightMode::initial}, {"any", WeightMode::any}};
    const auto found = modes.find(mode);
    if (found == modes.end()) throw Error("weights are trained, initial or any, not '" + mode + "'");
    case_.contract.weights = found->second;
  }
  void read_option(Scanner& in) {
    const std::string name = in.word();
    const std::string value = in.word();
    RangeSettings& settings = case_.settings;
    if (name == "runtime") settings.runtime = runtime(value);
    else if (name == "max_cells") settings.max_cells = static_cast<std::size_t>(number(value));
    else if (name == "affine") settings.affine = number(value) != 0;
    else if (name == "flush_subnormals") settings.flush_subnormals = number(value) != 0;
    else if (name == "accumulate") settings.accumulate = dtype(value);
    else if (name == "train") case_.training = Training{.loss = value};
    else if (name == "as") case_.target = dtype(value);
    else throw Error("no option is called '" + name + "'");
  }

  static Runtime runtime(const std::string& name) {
    static const std::map<std::string, Runtime> known = {
        {"measured", Runtime::measured}, {"any", Runtime::any}, {"exact", Runtime::exact}};
    const auto found = known.find(name);
    if (found == known.end()) throw Error("no runtime is called '" + name + "'");
    return found->second;
  }

  static DType dtype(const std::string& name) {
    const auto found = dtype_from_name(name);
    if (!found) throw Error("no format is called '" + name + "'");
    return *found;
  }

  // False: the line is not an expectation.
  bool read_expectation(const Line& line) {
    using Kind = CheckExpectation::Kind;
    static const std::map<std::string, Kind> kinds = {
        {"proved", Kind::proved},   {"possible", Kind::possible},
        {"unknown", Kind::unknown}, {"known-false-alarm", Kind::known_false_alarm},
        {"range", Kind::range},     {"within", Kind::within},
        {"covers", Kind::covers}};
    Scanner in(line.text);
    const auto kind = kinds.find(in.word());
    if (kind == kinds.end()) return false;
    CheckExpectation result;
    result.kind = kind->second;
    result.name = in.word();
    result.line = line.number;
    if (result.kind >= Kind::range) {
      result.range = trimmed(in.rest());
      parse_range(result.range);
    } else {
      read_rule(in, result);
    }
    case_.expectations.push_back(result);
    return true;
  }
  static void read_rule(Scanner& in, CheckExpectation& result) {
    if (result.kind == CheckExpectation::Kind::unknown && in.at_end()) return;
    result.rule = in.word();
    if (!result.rule.starts_with("FN")) throw Error("'" + result.rule + "' is no rule code");
    if (result.kind == CheckExpectation::Kind::known_false_alarm) {
      if (!in.accept("#") || in.at_end()) throw Error("a known false alarm needs '# reason'");
    } else if (in.accept("seen ")) {
      result.range = trimmed(in.rest());
    } else if (!in.at_end()) {
      throw Error("cannot read '" + in.rest() + "'");
    }
  }

  void add_statement(const Line& line) {
    if (depth_ == 0) add_results(line.text);
    depth_ += static_cast<int>(std::ranges::count(line.text, '{') - std::ranges::count(line.text, '}'));
    statements_.push_back(line);
  }
  void add_results(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || text.starts_with("const ")) return;
    std::istringstream results(text.substr(0, equals));
    for (std::string item; std::getline(results, item, ',');) {
      const std::string name = trimmed(item.substr(0, item.find(':')));
      if (name != "_") results_.push_back(name);
    }
  }
  // Results that nothing uses, or that an `output` line names.
  std::string outputs() const {
    std::string text = asked_;
    for (const std::string& name : results_) {
      const std::regex use("=.*\\b" + name + "\\b|->.*\\b" + name + "\\b");
      const bool used = std::ranges::any_of(statements_, [&](const Line& l) { return std::regex_search(l.text, use); });
      if (!used) text += (text.empty() ? "" : ", ") + name;
    }
    return text;
  }

  // Statements keep their line, so that errors of the text form point into the case file.
  std::string graph_text(int first_line) const {
    std::string text = "opset " + opset_ + " ";
    for (int line = 1; line < first_line; ++line) text += '\n';
    text += "graph test (" + inputs_ + ") -> (" + outputs() + ") {";
    int at = first_line;
    for (const Line& line : statements_) {
      for (; at < line.number; ++at) text += '\n';
      text += line.text;
    }
    return text + "\n}\n";
  }

  void read_witness(int line, const std::string& text) {
    try {
      Witness witness;
      witness.line = line;
      Scanner in(text);
      witness.node = in.until(':');
      std::istringstream list(in.rest());
      for (std::string item; std::getline(list, item, ';');) {
        Scanner one(item);
        const std::string name = one.until('=');
        if (!types_.contains(name)) throw Error("no input is called '" + name + "'");
        witness.inputs[name] = witness_tensor(types_.at(name), trimmed(one.rest()));
      }
      case_.witnesses.push_back(std::move(witness));
    } catch (Error& error) {
      error.in(case_.file + ":" + std::to_string(line));
      throw;
    }
  }
  // {1, 2}, a whole literal, or one value for all elements.
  static Tensor witness_tensor(const std::string& type, const std::string& text) {
    if (text.starts_with("{")) return parse_tensor(type + " " + text);
    if (text.find('{') != std::string::npos) return parse_tensor(text);
    Dims dims;
    std::istringstream sizes(type.substr(type.find('[') + 1, type.find(']') - type.find('[') - 1));
    for (std::string size; std::getline(sizes, size, ',');) {
      dims.push_back(static_cast<std::int64_t>(number(trimmed(size))));
    }
    return filled(dtype(type.substr(0, type.find('['))), dims, text);
  }

  CheckCase& case_;
  const std::string& opset_;
  std::string inputs_ = {};
  std::string asked_ = {};  // outputs that are used inside too
  std::vector<std::string> results_ = {};
  std::map<std::string, std::string> types_ = {};
  std::vector<Line> statements_ = {};
  std::vector<std::pair<int, std::string>> witnesses_ = {};
  int depth_ = 0;
};

// Longest name first, so that $T does not eat the start of $Top.
std::string replaced(std::string text, Row row) {
  std::ranges::stable_sort(row, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (const auto& [name, value] : row) {
    for (std::size_t at = 0; (at = text.find("$" + name, at)) != std::string::npos; at += value.size()) {
      text.replace(at, name.size() + 1, value);
    }
  }
  return text;
}

// "a <= b, -x" -> "a_b_x"
std::string as_test_name(const std::string& title) {
  std::string result;
  for (const char c : title) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) result += c;
    else if (!result.empty() && result.back() != '_') result += '_';
  }
  while (!result.empty() && result.back() == '_') result.pop_back();
  return result;
}

// Removes the table of a case and gives its rows.
std::vector<Row> take_rows(std::vector<Line>& lines) {
  const auto each = std::ranges::find_if(lines, [](const Line& line) { return line.text.starts_with("each "); });
  if (each == lines.end()) return {};
  std::vector<std::string> names = words_of(each->text);
  names.erase(names.begin());
  std::vector<Row> rows;
  for (const Line& line : lines) {
    if (!line.text.starts_with("|")) continue;
    const std::vector<std::string> values = words_of(line.text.substr(1));
    if (values.size() != names.size())
      throw Error("line " + std::to_string(line.number) + ": a row needs one word per name");
    Row row;
    for (std::size_t i = 0; i < names.size(); ++i) row.emplace_back(names[i], values[i]);
    rows.push_back(std::move(row));
  }
  std::erase_if(lines, [](const Line& line) { return line.text.starts_with("each ") || line.text.starts_with("|"); });
  return rows;
}

CheckCase read_row(const CheckCase& head, std::vector<Line> lines, const Row& row, const std::string& opset) {
  CheckCase result = head;
  result.title = replaced(result.title, row);
  if (head.rows && result.title == head.title) result.title += " " + row.front().second;
  for (Line& line : lines) line.text = replaced(line.text, row);
  try {
    CaseReader(result, opset).read(lines);
  } catch (const Error& error) {
    result.error = error.what();
  }
  return result;
}

void read_case(std::vector<Line> lines, const std::string& file, const std::string& opset,
               std::vector<CheckCase>& cases) {
  CheckCase head;
  head.file = file;
  head.line = lines.front().number;
  head.title = trimmed(lines.front().text.substr(4));
  lines.erase(lines.begin());
  try {
    if (lines.empty()) throw Error("an empty case");
    const std::vector<Row> rows = take_rows(lines);
    head.rows = !rows.empty();
    if (rows.empty()) cases.push_back(read_row(head, lines, {}, opset));
    for (const Row& row : rows) cases.push_back(read_row(head, lines, row, opset));
  } catch (const Error& error) {
    head.error = error.what();
    cases.push_back(head);
  }
}

std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line = trimmed(line.substr(0, line.find("//")));
    if (!line.empty()) lines.push_back({number, line});
  }
  return lines;
}

void name_tests(std::vector<CheckCase>& cases) {
  std::set<std::string> taken;
  for (CheckCase& one : cases) {
    one.test_name = as_test_name(one.title);
    if (!taken.insert(one.test_name).second) {
      one.test_name += "_line_" + std::to_string(one.line) + "_" + std::to_string(taken.size());
      taken.insert(one.test_name);
    }
  }
}

}  // namespace

std::vector<CheckCase> read_check_cases(const std::string& path) {
  const std::string file = std::filesystem::path(path).filename();
  std::vector<CheckCase> cases;
  std::vector<Line> current;
  std::string opset = "17";
  for (const Line& line : lines_of(read_text_file(path))) {
    const bool starts = line.text.starts_with("case ") || line.text.starts_with("opset ");
    if (starts && !current.empty()) {
      read_case(std::move(current), file, opset, cases);
      current.clear();
    }
    if (line.text.starts_with("opset ")) opset = trimmed(line.text.substr(6));
    else current.push_back(line);
  }
  if (!current.empty()) read_case(std::move(current), file, opset, cases);
  name_tests(cases);
  return cases;
}

Tensor filled(DType dtype, const Dims& dims, const std::string& number) {
  const Tensor one = parse_tensor(std::string(name(dtype)) + "[] {" + number + "}");
  Tensor result(dtype, dims);
  const std::size_t width = one.bytes().size();
  const auto target = result.mutable_bytes();
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = one.bytes()[i % width];
  return result;
}

Range parse_range(std::string_view text) {
  Range range;
  Scanner in(text);
  if (in.accept("nothing")) return range;
  bool first = true;
  while (!in.at_end()) {
    if (!first && !in.accept("or ") && !in.accept("only"))
      throw Error("cannot read the range '" + std::string(text) + "'");
    if (in.at_end()) break;
    if (in.accept("NaN")) range.nan = true;
    else if (in.accept("+Inf")) range.pinf = true;
    else if (in.accept("-Inf")) range.ninf = true;
    else if (first) std::tie(range.lo, range.hi) = bounds(in);
    else throw Error("cannot read the range '" + std::string(text) + "'");
    first = false;
  }
  return range;
}

}  // namespace finity
