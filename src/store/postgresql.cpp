// libpq is loaded when a server is named, so that finity neither needs it to be built nor loads it for anything else.
#include <dlfcn.h>

#include <charconv>

#include "store/database.h"

namespace finity {

namespace {

constexpr const char* kLibrary = "libpq.so.5";
// Numbers of libpq's interface and of PostgreSQL's types.
constexpr int kConnected = 0, kEmpty = 0, kCommandDone = 1, kRows = 2, kSqlState = 'C';
using TypeId = unsigned;
constexpr TypeId kBool = 16, kBytes = 17, kInt8 = 20, kInt2 = 21, kInt4 = 23, kText = 25, kFloat4 = 700, kFloat8 = 701,
                 kNumeric = 1700;

struct PGconn;
struct PGresult;

struct Library {
  PGconn* (*connect)(const char*) = nullptr;
  void (*finish)(PGconn*) = nullptr;
  void (*reset)(PGconn*) = nullptr;
  int (*status)(const PGconn*) = nullptr;
  char* (*error)(const PGconn*) = nullptr;
  PGresult* (*exec)(PGconn*, const char*) = nullptr;
  PGresult* (*exec_params)(PGconn*, const char*, int, const TypeId*, const char* const*, const int*, const int*,
                           int) = nullptr;
  int (*result_status)(const PGresult*) = nullptr;
  char* (*result_error)(const PGresult*) = nullptr;
  char* (*result_field)(const PGresult*, int) = nullptr;
  int (*rows)(const PGresult*) = nullptr;
  int (*columns)(const PGresult*) = nullptr;
  TypeId (*type)(const PGresult*, int) = nullptr;
  char* (*value)(const PGresult*, int, int) = nullptr;
  int (*length)(const PGresult*, int, int) = nullptr;
  int (*is_null)(const PGresult*, int, int) = nullptr;
  void (*clear)(PGresult*) = nullptr;
  void* (*notices)(PGconn*, void (*)(void*, const char*), void*) = nullptr;
};

const Library& library() {
  static const Library loaded = [] {
    void* handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw Error(std::string(kLibrary) + " is not installed (Debian: libpq5)");
    Library lib;
    const auto load = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
      if (function == nullptr) throw Error(std::string(kLibrary) + " has no " + name);
    };
    load("PQconnectdb", lib.connect);
    load("PQfinish", lib.finish);
    load("PQreset", lib.reset);
    load("PQstatus", lib.status);
    load("PQerrorMessage", lib.error);
    load("PQexec", lib.exec);
    load("PQexecParams", lib.exec_params);
    load("PQresultStatus", lib.result_status);
    load("PQresultErrorMessage", lib.result_error);
    load("PQresultErrorField", lib.result_field);
    load("PQntuples", lib.rows);
    load("PQnfields", lib.columns);
    load("PQftype", lib.type);
    load("PQgetvalue", lib.value);
    load("PQgetlength", lib.length);
    load("PQgetisnull", lib.is_null);
    load("PQclear", lib.clear);
    load("PQsetNoticeProcessor", lib.notices);
    return lib;
  }();
  return loaded;
}

std::string one_line(const char* text) {
  std::string line = text == nullptr ? "" : text;
  line = line.substr(0, line.find('\n'));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// The address without what stands before the @: that may be a password.
std::string shown(const std::string& address) {
  const std::size_t scheme = address.find("://"), at = address.find('@');
  if (scheme == std::string::npos || at == std::string::npos) return address.substr(0, address.find('?'));
  return address.substr(0, scheme + 3) + address.substr(at + 1, address.find('?', at) - at - 1);
}

// Texts of libraries are shown as they are; what is not UTF-8 no server takes.
std::string as_utf8(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    bool fine = first != 0 && first < 0xf5 && length > 0 && i + length <= text.size();
    for (std::size_t k = 1; fine && k < length; ++k) fine = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
    if (fine && length == 3) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      fine = !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second >= 0xa0);
    }
    if (fine && length == 4) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      fine = !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second >= 0x90);
    }
    result += fine ? text.substr(i, length) : "?";
    i += fine ? length : 1;
  }
  return result;
}

std::string numbered(const std::string& sql) {
  std::string result;
  int index = 0;
  for (const char c : sql) result += c == '?' ? "$" + std::to_string(++index) : std::string(1, c);
  return result;
}

// Cells in the form that PQexecParams wants.
class Parameters {
 public:
  explicit Parameters(const Row& cells) {
    texts_.reserve(cells.size());
    for (const Cell& cell : cells) add(cell);
    for (std::size_t i = 0; i < cells.size(); ++i)
      values.push_back(std::holds_alternative<std::monostate>(cells[i]) ? nullptr : texts_[i].c_str());
  }
  std::vector<TypeId> types;
  std::vector<const char*> values;
  std::vector<int> lengths, formats;

 private:
  void add(const Cell& cell) {
    std::string text;
    TypeId type = 0;
    if (const auto* number = std::get_if<std::int64_t>(&cell)) {
      text = std::to_string(*number);
      type = kInt8;
    } else if (const auto* real = std::get_if<double>(&cell)) {
      char digits[40];
      text.assign(digits, std::to_chars(digits, digits + sizeof digits, *real).ptr);
      type = kFloat8;
    } else if (const auto* words = std::get_if<std::string>(&cell)) {
      text = as_utf8(*words);
      type = kText;
    } else if (const auto* bytes = std::get_if<Bytes>(&cell)) {
      text = bytes->content;
      type = kBytes;
    }
    types.push_back(type);
    formats.push_back(type == kBytes ? 1 : 0);
    lengths.push_back(static_cast<int>(text.size()));
    texts_.push_back(std::move(text));
  }
  std::vector<std::string> texts_;
};

std::string from_hex(std::string_view text) {
  std::string bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (std::size_t i = 2; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
  return bytes;
}

Cell cell_of(TypeId type, std::string_view text) {
  std::int64_t number = 0;
  double real = 0;
  switch (type) {
    case kBool: return std::int64_t{text == "t"};
    case kInt8:
    case kInt2:
    case kInt4:
    case kNumeric: std::from_chars(text.data(), text.data() + text.size(), number); return number;
    case kFloat4:
    case kFloat8: std::from_chars(text.data(), text.data() + text.size(), real); return real;
    case kBytes: return Bytes{from_hex(text)};
    default: return std::string(text);
  }
}

class PostgreSql final : public Database {
 public:
  explicit PostgreSql(const std::string& address) : lib_(library()), name_(shown(address)) {
    connection_ = lib_.connect(address.c_str());
    try {
      if (lib_.status(connection_) != kConnected) throw Error(name_ + ": " + one_line(lib_.error(connection_)));
      lib_.notices(
          connection_, [](void*, const char*) {}, nullptr);  // such as that a table exists already
    } catch (...) {
      lib_.finish(connection_);
      throw;
    }
  }
  ~PostgreSql() override { lib_.finish(connection_); }

  void run(const std::string& sql) override { lib_.clear(checked(lib_.exec(connection_, sql.c_str()))); }

  std::vector<Row> query(const std::string& sql, const Row& cells) override {
    const Parameters p(cells);
    PGresult* result =
        checked(lib_.exec_params(connection_, numbered(sql).c_str(), static_cast<int>(cells.size()), p.types.data(),
                                 p.values.data(), p.lengths.data(), p.formats.data(), 0));
    std::vector<Row> rows;
    for (int r = 0; r < lib_.rows(result); ++r) {
      Row row;
      for (int c = 0; c < lib_.columns(result); ++c) {
        const auto size = static_cast<std::size_t>(lib_.length(result, r, c));
        row.push_back(
            lib_.is_null(result, r, c) != 0 ? Cell() : cell_of(lib_.type(result, c), {lib_.value(result, r, c), size}));
      }
      rows.push_back(std::move(row));
    }
    lib_.clear(result);
    return rows;
  }

  void begin() override { run("BEGIN"); }
  void roll_back() override { lib_.clear(lib_.exec(connection_, "ROLLBACK")); }
  std::string_view bytes_type() const override { return "BYTEA"; }

 private:
  PGresult* checked(PGresult* result) {
    const int status = lib_.result_status(result);
    if (status == kCommandDone || status == kRows || status == kEmpty) return result;
    const char* field = lib_.result_field(result, kSqlState);
    const std::string state = field == nullptr ? "" : field;
    const std::string text = name_ + ": " + one_line(lib_.result_error(result));
    lib_.clear(result);
    if (state == "40001" || state == "40P01") throw TryAgain(text);  // serialisation failure, deadlock
    // What does not come from the server, or says that it shuts down: there is no connection any more.
    const bool lost = state.empty() || state.starts_with("08") || state.starts_with("57P");
    if (!lost) throw Error(text);
    lib_.reset(connection_);
    throw TryAgain(text);
  }

  const Library& lib_;
  std::string name_;
  PGconn* connection_ = nullptr;
};

}  // namespace

std::unique_ptr<Database> open_postgresql(const std::string& address) { return std::make_unique<PostgreSql>(address); }

}  // namespace finity
