// Contract files; the schema is in docs/contracts.md.
#include <charconv>
#include <cmath>

#include "check/contract.h"
#include "formats/toml/toml.h"

namespace finity {

namespace {

double end_of(const TomlValue& value) {
  if (value.is_text() && value.as_text() == "max") return kMostFinite;
  if (value.is_text() && value.as_text() == "-max") return -kMostFinite;
  const double number = value.as_number();
  if (std::isnan(number)) throw value.error("an end of a range cannot be NaN");
  return number;
}

std::pair<double, double> range_of(const TomlValue& value) {
  const std::vector<TomlValue>& ends = value.as_list();
  if (ends.size() != 2) throw value.error("a range has two ends");
  const std::pair<double, double> range = {end_of(ends[0]), end_of(ends[1])};
  if (!(range.first <= range.second)) throw value.error("the lower end is greater than the upper one");
  return range;
}

int axis_of(const TomlValue& value) {
  const std::int64_t axis = value.as_integer();
  if (axis < -64 || axis > 63) throw value.error("there is no axis " + std::to_string(axis));
  return static_cast<int>(axis);
}

void read_columns(const TomlValue& table, InputContract& input) {
  for (const auto& [key, value] : table.as_table().entries) {
    std::int64_t column = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), column);
    if (error != std::errc() || end != key.data() + key.size())
      throw value.error("'" + key + "' is not a column number");
    input.columns[column] = range_of(value);
  }
}

void read_mask(const TomlValue& kind, const TomlValue* axis, InputContract& input) {
  const std::string& text = kind.as_text();
  const int along = axis == nullptr ? -1 : axis_of(*axis);
  if (text == "one-true-per-row") input.one_true_axis = along;
  else if (text == "one-zero-per-row") input.one_zero_axis = along;
  else throw kind.error("mask can be \"one-true-per-row\" or \"one-zero-per-row\", not \"" + text + "\"");
}

InputContract read_input(const std::string& pattern, const TomlValue& table) {
  table.as_table().only({"range", "values", "integer", "nan", "inf", "mask", "normalised", "axis", "columns"});
  InputContract input;
  input.pattern = pattern;
  input.origin = table.where;
  if (const TomlValue* range = table.find("range")) {
    const auto [lo, hi] = range_of(*range);
    input.lo = lo;
    input.hi = hi;
  }
  if (const TomlValue* values = table.find("values")) {
    if (input.lo) throw values->error("give a range or values, not both");
    for (const TomlValue& value : values->as_list()) input.values.push_back(end_of(value));
    if (input.values.empty()) throw values->error("there must be at least one value");
  }
  if (const TomlValue* integer = table.find("integer")) input.integer = integer->as_boolean();
  if (const TomlValue* nan = table.find("nan")) input.allow_nan = nan->as_boolean();
  if (const TomlValue* inf = table.find("inf")) input.allow_inf = inf->as_boolean();
  const TomlValue* axis = table.find("axis");
  const TomlValue* mask = table.find("mask");
  const TomlValue* normalised = table.find("normalised");
  if (mask != nullptr) read_mask(*mask, axis, input);
  if (normalised != nullptr && normalised->as_boolean()) input.sums_to_one_axis = axis == nullptr ? -1 : axis_of(*axis);
  if (axis != nullptr && mask == nullptr && normalised == nullptr) {
    throw axis->error("an axis belongs to a mask or to normalised rows");
  }
  if (const TomlValue* columns = table.find("columns")) read_columns(*columns, input);
  return input;
}

Contract contract_of(const TomlValue& root) {
  root.only({"weights", "inputs", "relations"});
  Contract contract;
  if (const TomlValue* weights = root.find("weights")) {
    try {
      contract.weights = weight_mode_from_name(weights->as_text());
    } catch (Error& error) {
      if (!std::string_view(error.what()).starts_with(weights->where)) error.in(weights->where);
      throw;
    }
  }
  if (const TomlValue* inputs = root.find("inputs")) {
    for (const auto& [pattern, table] : inputs->as_table().entries)
      contract.inputs.push_back(read_input(pattern, table));
  }
  if (const TomlValue* relations = root.find("relations")) {
    for (const TomlValue& relation : relations->as_list()) add_order(contract, relation.as_text(), relation.where);
  }
  return contract;
}

}  // namespace

Contract read_contract(const std::string& path) { return contract_of(read_toml(path)); }

Contract parse_contract(std::string_view text, const std::string& file) { return contract_of(parse_toml(text, file)); }

}  // namespace finity
