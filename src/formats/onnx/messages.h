// The messages of a model, split into their fields but not yet understood. Texts
// and parts are views into the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/onnx/losses.h"
#include "formats/onnx/wire.h"
#include "graph/graph.h"

namespace finity::onnx {

using Opsets = std::map<std::string, int, std::less<>>;

using NamedBytes = std::pair<std::string_view, Bytes>;

struct ModelFields {
  ModelInfo info = {};  // all but the file
  Bytes graph = {};
  std::vector<Bytes> functions = {};
};

struct GraphFields {
  std::string_view name = {};
  std::string_view doc = {};
  std::vector<Bytes> nodes = {};
  std::vector<Bytes> constants = {};
  std::vector<Bytes> sparse_constants = {};
  std::vector<Bytes> inputs = {};
  std::vector<Bytes> outputs = {};
  std::vector<Bytes> value_infos = {};
  Properties metadata = {};
  std::size_t own_bytes = 0;  // without nodes and tensors
};

struct NodeFields {
  std::string_view name = {};
  std::string_view op_type = {};
  std::string_view domain = {};  // "" also for "ai.onnx"
  std::string_view overload = {};
  std::string_view doc = {};
  std::uint64_t offset = 0;   // of the message in the file
  std::size_t own_bytes = 0;  // without attributes
  std::vector<std::string_view> inputs = {};
  std::vector<std::string_view> outputs = {};
  std::vector<Bytes> attributes = {};
  std::vector<Bytes> metadata = {};
};

struct ValueInfoFields {
  std::string_view name = {};
  Bytes type = {};
  bool described = false;
};

struct Function {
  std::string_view name = {};
  std::string_view domain = {};
  std::string_view overload = {};
  std::vector<std::string_view> inputs = {};
  std::vector<std::string_view> outputs = {};
  std::vector<NamedBytes> defaults = {};  // attributes with a default value
  std::vector<Bytes> nodes = {};
  std::vector<Bytes> value_infos = {};
  Opsets opsets = {};
};

// Each throws Error with the byte on a malformed message; scan_model also when there is no graph.
ModelFields scan_model(Bytes file, Losses& losses);
GraphFields scan_graph(Bytes message, const std::byte* file, Losses& losses);
// Reuses the vectors of `node`.
void scan_node(Bytes message, const std::byte* file, Losses& losses, NodeFields& node);
ValueInfoFields scan_value_info(Bytes message, const std::byte* file);
Function scan_function(Bytes message, const std::byte* file);

// The first name in an AttributeProto; reads no further.
std::string_view attribute_name(Bytes message, const std::byte* file);
std::pair<std::string_view, std::string_view> scan_property(Bytes message, const std::byte* file);

// "node 'x' (Relu)", before there is a graph to ask.
std::string describe(const NodeFields& node);
// "domain.name" or "name"
std::string qualified(std::string_view domain, std::string_view name);

}  // namespace finity::onnx
