// TypeProto to Type and back.
#pragma once

#include "formats/onnx/losses.h"
#include "formats/onnx/wire.h"
#include "graph/builder.h"
#include "graph/type.h"

namespace finity::onnx {

class TypeReader {
 public:
  TypeReader(const std::byte* file, GraphBuilder& builder, Losses& losses)
      : file_(file), builder_(builder), losses_(losses) {}

  // Without symbols, a named dimension is unknown: a function's "N" is another one in every call.
  // Throws Error on an unknown element type and on types nested too deeply.
  Type read(Bytes type_proto, bool symbols) const { return read(type_proto, symbols, 0); }

 private:
  Type read(Bytes type_proto, bool symbols, int depth) const;
  Type read_content(int field, Cursor content, bool symbols, int depth) const;
  Shape read_shape(Cursor shape, bool symbols) const;
  Dim read_dim(Cursor dim, bool symbols) const;

  const std::byte* file_;
  GraphBuilder& builder_;
  Losses& losses_;
};

// Writes the fields of a TypeProto; nothing for an unknown type.
void write_type(WireWriter& out, const Graph& graph, const Type& type);

}  // namespace finity::onnx
