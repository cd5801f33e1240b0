// Attributes to AttributeProto.
#pragma once

#include <functional>
#include <string_view>

#include "formats/onnx/attribute_fields.h"
#include "formats/onnx/wire.h"
#include "graph/graph.h"

namespace finity::onnx {

// The kind an attribute is written as.
AttrKind kind_of(const Attr& attr);

// Writes the fields of an AttributeProto; `write_graph` writes those of a GraphProto.
void write_attribute(WireWriter& out, const Graph& graph, std::string_view name, const Attr& attr,
                     const std::function<void(BodyId)>& write_graph);

}  // namespace finity::onnx
