// SQLite, wrapped: the only folder that includes its header. A transaction is on disk when commit() returns, so a
// program that is killed loses what came after the last commit and nothing else.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

struct sqlite3;

namespace finity {

using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;
using Row = std::vector<Cell>;

std::int64_t as_int(const Cell& cell);
std::string as_text(const Cell& cell);

class Database {
 public:
  // Opens or makes the file. Throws Error naming it when that cannot be done or it is something else.
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // One or more statements without results.
  void run(const std::string& sql);
  // One statement with ? for the cells.
  void run(const std::string& sql, std::initializer_list<Cell> cells);
  std::vector<Row> query(const std::string& sql, std::initializer_list<Cell> cells = {});

  void begin() { run("BEGIN IMMEDIATE"); }
  void commit() { run("COMMIT"); }

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  sqlite3* handle_ = nullptr;
};

}  // namespace finity
