// ONNX models: every IR version and operator set. Functions are inlined, weights
// stay views into the mapped file, operators that are not in the op table stay
// nodes with op == nullptr.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "ops/table/datum.h"
#include "tensor/tensor.h"

namespace finity {

// Starts a note that matters only to those who write the model again.
inline constexpr std::string_view kNotKept = "not kept when the model is written again: ";

// Throws Error "path: place: reason" when the file is not a model that can be read.
Graph read_onnx(const std::string& path, std::vector<Note>& notes);

// A model that is already in memory. The graph keeps `owner`, which must keep `bytes`.
struct OnnxSource {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> owner = {};
  std::string name = {};       // for messages
  std::string directory = {};  // of external data; empty: external data cannot be had
};
Graph read_onnx(const OnnxSource& source, std::vector<Note>& notes);

// A serialised ModelProto. Throws Error when the graph cannot be said in ONNX.
std::string write_onnx(const Graph& graph);

// Whether the file is meant to be an ONNX model.
bool looks_like_onnx(std::span<const std::byte> file);

// The files of a test_data_set_* folder. A name is stored when `name` is not null.
Tensor read_tensor_proto(std::span<const std::byte> bytes, std::string* name = nullptr);
std::string write_tensor_proto(const Tensor& tensor, std::string_view name);
// What such a file holds depends on the value's declared kind: a TensorProto (also when unknown),
// a SparseTensorProto (given dense), a SequenceProto or an OptionalProto (absent when empty).
Datum read_datum_proto(std::span<const std::byte> bytes, Type::Kind kind, std::string* name = nullptr);

}  // namespace finity
