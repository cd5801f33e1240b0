#include <sqlite3.h>

#include "store/database.h"

namespace finity {

namespace {

constexpr int kBusyMilliseconds = 10000;

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

void bind(sqlite3_stmt* statement, int index, const Cell& cell) {
  if (const auto* number = std::get_if<std::int64_t>(&cell)) sqlite3_bind_int64(statement, index, *number);
  else if (const auto* real = std::get_if<double>(&cell)) sqlite3_bind_double(statement, index, *real);
  else if (const auto* text = std::get_if<std::string>(&cell))
    sqlite3_bind_text(statement, index, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
  else if (const auto* bytes = std::get_if<Bytes>(&cell))
    sqlite3_bind_blob(statement, index, bytes->content.data(), static_cast<int>(bytes->content.size()),
                      SQLITE_TRANSIENT);
  else sqlite3_bind_null(statement, index);
}

Cell read(sqlite3_stmt* statement, int column) {
  const auto size = [&] { return static_cast<std::size_t>(sqlite3_column_bytes(statement, column)); };
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_NULL: return std::monostate();
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
      return Bytes{bytes == nullptr ? std::string() : std::string(bytes, size())};
    }
    default: break;
  }
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  return std::string(text, size());
}

class Sqlite final : public Database {
 public:
  explicit Sqlite(const std::string& path) : path_(path) {
    try {
      if (sqlite3_open(path.c_str(), &handle_) != SQLITE_OK) fail("cannot be opened");
      sqlite3_busy_timeout(handle_, kBusyMilliseconds);
      run("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
    } catch (...) {
      sqlite3_close(handle_);
      throw;
    }
  }
  ~Sqlite() override { sqlite3_close(handle_); }

  void run(const std::string& sql) override {
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail("cannot be written");
  }

  std::vector<Row> query(const std::string& sql, const Row& cells) override {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &made, nullptr) != SQLITE_OK) fail("cannot be asked");
    const Statement statement(made);
    int index = 0;
    for (const Cell& cell : cells) bind(made, ++index, cell);
    std::vector<Row> rows;
    for (int code = sqlite3_step(made); code != SQLITE_DONE; code = sqlite3_step(made)) {
      if (code != SQLITE_ROW) fail("cannot be read");
      Row row;
      for (int column = 0; column < sqlite3_column_count(made); ++column) row.push_back(read(made, column));
      rows.push_back(std::move(row));
    }
    return rows;
  }

  void begin() override { run("BEGIN IMMEDIATE"); }
  void roll_back() override { sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr); }
  std::string_view bytes_type() const override { return "BLOB"; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(path_ + ": " + what + ": " + (handle_ == nullptr ? "no memory" : sqlite3_errmsg(handle_)));
  }

  std::string path_;
  sqlite3* handle_ = nullptr;
};

}  // namespace

std::unique_ptr<Database> open_sqlite(const std::string& path) { return std::make_unique<Sqlite>(path); }

}  // namespace finity
