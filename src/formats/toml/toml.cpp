#include "formats/toml/toml.h"

#include <toml++/toml.h>

#include <algorithm>

#include "base/mapped_file.h"

namespace finity {

namespace {

TomlValue convert(const toml::node& node, std::string_view key, const std::string& file);

std::vector<TomlEntry> entries_of(const toml::table& table, const std::string& file) {
  std::vector<std::pair<toml::source_position, TomlEntry>> placed;
  for (const auto& [key, node] : table) {
    placed.emplace_back(key.source().begin, TomlEntry{std::string(key.str()), convert(node, key.str(), file)});
  }
  std::ranges::stable_sort(placed, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TomlEntry> entries;
  for (auto& [place, entry] : placed) entries.push_back(std::move(entry));
  return entries;
}

void fill_scalar(TomlValue& value, const toml::node& node) {
  using Kind = TomlValue::Kind;
  if (const auto* text = node.as_string()) {
    value.kind = Kind::text;
    value.string = text->get();
  } else if (const auto* whole = node.as_integer()) {
    value.kind = Kind::integer;
    value.whole = whole->get();
    value.number = static_cast<double>(whole->get());
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = Kind::real;
    value.number = real->get();
  } else if (const auto* flag = node.as_boolean()) {
    value.kind = Kind::boolean;
    value.flag = flag->get();
  } else {
    value.kind = Kind::time;
  }
}

TomlValue convert(const toml::node& node, std::string_view key, const std::string& file) {
  TomlValue value;
  value.key = key;
  value.where = file + ":" + std::to_string(std::max<toml::source_index>(node.source().begin.line, 1));
  if (const toml::table* table = node.as_table()) {
    value.entries = entries_of(*table, file);
  } else if (const toml::array* list = node.as_array()) {
    value.kind = TomlValue::Kind::list;
    for (const toml::node& item : *list) value.items.push_back(convert(item, "", file));
  } else {
    fill_scalar(value, node);
  }
  return value;
}

}  // namespace

const TomlValue* TomlValue::find(std::string_view name) const {
  for (const TomlEntry& entry : entries) {
    if (entry.name == name) return &entry.value;
  }
  return nullptr;
}

Error TomlValue::error(std::string_view text) const { return Error(where + ": " + std::string(text)); }

namespace {

void expect(const TomlValue& value, bool good, std::string_view what) {
  const std::string subject = value.key.empty() ? "this value" : "'" + value.key + "'";
  if (!good) throw value.error(subject + " must be " + std::string(what));
}

}  // namespace

const std::string& TomlValue::as_text() const {
  expect(*this, is_text(), "a string");
  return string;
}

double TomlValue::as_number() const {
  expect(*this, is_number(), "a number");
  return number;
}

std::int64_t TomlValue::as_integer() const {
  expect(*this, kind == Kind::integer, "an integer");
  return whole;
}

bool TomlValue::as_boolean() const {
  expect(*this, is_boolean(), "true or false");
  return flag;
}

const std::vector<TomlValue>& TomlValue::as_list() const {
  expect(*this, is_list(), "a list");
  return items;
}

const TomlValue& TomlValue::as_table() const {
  expect(*this, is_table(), "a table");
  return *this;
}

std::vector<std::string> TomlValue::as_texts() const {
  if (is_text()) return {string};
  expect(*this, is_list() && std::ranges::all_of(items, &TomlValue::is_text), "a list of strings");
  std::vector<std::string> texts;
  for (const TomlValue& item : items) texts.push_back(item.string);
  return texts;
}

void TomlValue::only(std::initializer_list<std::string_view> known) const {
  std::string list;
  for (const std::string_view name : known) list += (list.empty() ? "" : ", ") + std::string(name);
  for (const TomlEntry& entry : entries) {
    if (std::ranges::find(known, entry.name) != known.end()) continue;
    throw entry.value.error("unknown key '" + entry.name + "' (known: " + list + ")");
  }
}

TomlValue parse_toml(std::string_view text, const std::string& file) {
  try {
    return convert(toml::parse(text, file), "", file);
  } catch (const toml::parse_error& error) {
    throw Error(file + ":" + std::to_string(error.source().begin.line) + ": " + std::string(error.description()));
  }
}

TomlValue read_toml(const std::string& path) {
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  return parse_toml({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace finity
