#include "store/database.h"

#include <sqlite3.h>

#include "base/error.h"

namespace finity {

namespace {

constexpr int kBusyMilliseconds = 10000;

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

Statement prepared(sqlite3* handle, const std::string& sql, std::initializer_list<Cell> cells) {
  sqlite3_stmt* made = nullptr;
  if (sqlite3_prepare_v2(handle, sql.c_str(), -1, &made, nullptr) != SQLITE_OK) return nullptr;
  Statement statement(made);
  int index = 0;
  for (const Cell& cell : cells) {
    ++index;
    if (const auto* number = std::get_if<std::int64_t>(&cell)) sqlite3_bind_int64(made, index, *number);
    else if (const auto* real = std::get_if<double>(&cell)) sqlite3_bind_double(made, index, *real);
    else if (const auto* text = std::get_if<std::string>(&cell))
      sqlite3_bind_text(made, index, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
    else sqlite3_bind_null(made, index);
  }
  return statement;
}

Cell read(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_NULL: return std::monostate();
    default: break;
  }
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  return std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
}

}  // namespace

std::int64_t as_int(const Cell& cell) {
  const auto* number = std::get_if<std::int64_t>(&cell);
  return number == nullptr ? 0 : *number;
}

std::string as_text(const Cell& cell) {
  const auto* text = std::get_if<std::string>(&cell);
  return text == nullptr ? std::string() : *text;
}

Database::Database(const std::string& path) : path_(path) {
  if (sqlite3_open(path.c_str(), &handle_) != SQLITE_OK) fail("cannot be opened");
  sqlite3_busy_timeout(handle_, kBusyMilliseconds);
  run("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
}

Database::~Database() { sqlite3_close(handle_); }

void Database::run(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail("cannot be written");
}

void Database::run(const std::string& sql, std::initializer_list<Cell> cells) { query(sql, cells); }

std::vector<Row> Database::query(const std::string& sql, std::initializer_list<Cell> cells) {
  const Statement statement = prepared(handle_, sql, cells);
  if (statement == nullptr) fail("cannot be asked");
  std::vector<Row> rows;
  for (int code = sqlite3_step(statement.get()); code != SQLITE_DONE; code = sqlite3_step(statement.get())) {
    if (code != SQLITE_ROW) fail("cannot be read");
    Row row;
    for (int column = 0; column < sqlite3_column_count(statement.get()); ++column)
      row.push_back(read(statement.get(), column));
    rows.push_back(std::move(row));
  }
  return rows;
}

void Database::fail(const std::string& what) const {
  throw Error(path_ + ": " + what + ": " + (handle_ == nullptr ? "no memory" : sqlite3_errmsg(handle_)));
}

}  // namespace finity
