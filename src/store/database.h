// Databases behind one small interface: SQLite for a file of one campaign, PostgreSQL for many machines. This is the
// only folder that knows either library. A transaction is safe when commit() returns, so a program that is killed
// loses what came after the last commit and nothing else. Statements are written in what both understand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace finity {

struct Bytes {
  std::string content = {};
};
using Cell = std::variant<std::monostate, std::int64_t, double, std::string, Bytes>;
using Row = std::vector<Cell>;

std::int64_t as_int(const Cell& cell);
std::string as_text(const Cell& cell);
std::string as_bytes(const Cell& cell);

// Two transactions got in each other's way, or the server went away in the middle: the transaction is to be done again.
class TryAgain : public Error {
 public:
  using Error::Error;
};

class Database {
 public:
  Database() = default;
  virtual ~Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // One or more statements without results.
  virtual void run(const std::string& sql) = 0;
  // One statement with ? for the cells.
  virtual std::vector<Row> query(const std::string& sql, const Row& cells = {}) = 0;
  void run(const std::string& sql, const Row& cells) { query(sql, cells); }

  virtual void begin() = 0;
  virtual void commit() { run("COMMIT"); }
  virtual void roll_back() = 0;
  // The name of the type of bytes.
  virtual std::string_view bytes_type() const = 0;
};

// Whether the text is the address of a server, not a path.
bool is_server(std::string_view where);
// Opens or makes the file of SQLite. Throws Error naming it when that cannot be done or it is something else.
std::unique_ptr<Database> open_sqlite(const std::string& path);
// "postgresql://user@host/name". Throws Error when libpq is not installed or the server does not answer.
std::unique_ptr<Database> open_postgresql(const std::string& address);

}  // namespace finity
