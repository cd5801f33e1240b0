#include "ops/order_kind.h"

#include <string_view>

namespace finity {

namespace {

struct Entry {
  std::string_view name;
  OrderKind kind;
};

constexpr Entry kEntries[] = {
    {"Add", OrderKind::sum},      {"Sub", OrderKind::difference},        {"Mul", OrderKind::product},
    {"Max", OrderKind::largest},  {"Min", OrderKind::smallest},          {"Relu", OrderKind::floored},
    {"Clip", OrderKind::floored}, {"Unsqueeze", OrderKind::insert_axes},
};

}  // namespace

OrderKind order_kind(const OpDef& op) {
  if (!op.domain.empty()) return OrderKind::none;
  for (const Entry& entry : kEntries) {
    if (entry.name == op.name) return entry.kind;
  }
  return OrderKind::none;
}

}  // namespace finity
