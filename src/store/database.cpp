#include "store/database.h"

namespace finity {

std::int64_t as_int(const Cell& cell) {
  const auto* number = std::get_if<std::int64_t>(&cell);
  return number == nullptr ? 0 : *number;
}

std::string as_text(const Cell& cell) {
  const auto* text = std::get_if<std::string>(&cell);
  return text == nullptr ? std::string() : *text;
}

std::string as_bytes(const Cell& cell) {
  const auto* bytes = std::get_if<Bytes>(&cell);
  return bytes == nullptr ? std::string() : bytes->content;
}

bool is_server(std::string_view where) {
  return where.starts_with("postgresql://") || where.starts_with("postgres://");
}

}  // namespace finity
