// From a node's domain and op_type to what they mean: a function of the model, an
// op of the table, or neither. A function wins over an op of the same name: it is
// the definition that came with the model.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "formats/onnx/messages.h"
#include "graph/builder.h"

namespace finity::onnx {

struct OpKey {
  std::string_view domain = {};
  std::string_view name = {};
  std::string_view overload = {};
  bool operator==(const OpKey&) const = default;
};

struct OpKeyHash {
  std::size_t operator()(const OpKey& key) const noexcept {
    const std::hash<std::string_view> hash;
    return hash(key.name) * 31 + hash(key.domain) * 7 + (key.overload.empty() ? 0 : hash(key.overload));
  }
};

struct Meaning {
  const OpDef* op = nullptr;
  std::string_view op_type = {};  // interned by the graph
  std::string_view domain = {};
  int version = 0;
  const Function* function = nullptr;
};

// The operator set versions one graph or function is written for, with the answers found so far.
struct OpContext {
  const Opsets* imports = nullptr;  // of the function; null for the main graph
  std::unordered_map<OpKey, Meaning, OpKeyHash> known = {};
};

class OpLookup {
 public:
  // Throws Error when two functions have the same domain, name and overload.
  OpLookup(const std::vector<Bytes>& functions, const std::byte* file, GraphBuilder& builder, std::string where,
           std::vector<Note>& notes);
  OpLookup(const OpLookup&) = delete;
  OpLookup& operator=(const OpLookup&) = delete;

  const Meaning& find(OpContext& context, const NodeFields& node);
  OpContext& main() { return main_; }
  OpContext& context_of(const Function& function) { return contexts_[&function]; }
  std::size_t function_nodes() const { return function_nodes_; }

 private:
  int version_of(const OpContext& context, std::string_view domain);
  int guess_version(std::string_view domain);

  GraphBuilder& builder_;
  std::string where_;
  std::vector<Note>& notes_;
  std::deque<Function> functions_;
  std::unordered_map<OpKey, const Function*, OpKeyHash> by_key_;
  std::unordered_map<const Function*, OpContext> contexts_;
  OpContext main_;
  std::size_t function_nodes_ = 0;
};

}  // namespace finity::onnx
