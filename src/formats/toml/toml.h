// Configuration files: TOML read into a plain tree that knows where each value
// stood. The accessors throw one-line errors such as
//   finity.toml:12: 'select' must be a list of strings
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace finity {

struct TomlEntry;

struct TomlValue {
  enum class Kind : std::uint8_t { table, list, text, integer, real, boolean, time };

  Kind kind = Kind::table;
  std::string where = {};             // "finity.toml:12"
  std::string key = {};               // under which it stands; "" for the root and for items of lists
  std::string string = {};            // text
  std::int64_t whole = 0;             // integer
  double number = 0;                  // integer, real (inf and nan are allowed in TOML)
  bool flag = false;                  // boolean
  std::vector<TomlValue> items = {};  // list
  std::vector<TomlEntry> entries;     // table, in the order of the file

  bool is_table() const { return kind == Kind::table; }
  bool is_list() const { return kind == Kind::list; }
  bool is_text() const { return kind == Kind::text; }
  bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
  bool is_boolean() const { return kind == Kind::boolean; }

  // The entry of a table; null when it is not there.
  const TomlValue* find(std::string_view name) const;

  // The value as that kind; Error with place and key otherwise.
  const std::string& as_text() const;
  double as_number() const;  // integers too
  std::int64_t as_integer() const;
  bool as_boolean() const;
  const std::vector<TomlValue>& as_list() const;
  const TomlValue& as_table() const;
  std::vector<std::string> as_texts() const;  // a list of strings, or one string

  // Throws Error naming the first key of this table that is none of these.
  void only(std::initializer_list<std::string_view> known) const;
  // "finity.toml:12: TEXT", to be thrown.
  Error error(std::string_view text) const;
};

struct TomlEntry {
  std::string name = {};
  TomlValue value = {};
};

TomlValue parse_toml(std::string_view text, const std::string& file);
// Throws Error when the file cannot be read or is not TOML.
TomlValue read_toml(const std::string& path);

}  // namespace finity
