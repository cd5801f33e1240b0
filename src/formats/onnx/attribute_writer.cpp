#include "formats/onnx/attribute_writer.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "formats/onnx/tensor_writer.h"
#include "formats/onnx/type_proto.h"

namespace finity::onnx {

namespace {

template <class T>
constexpr bool kIsList = false;
template <class T>
constexpr bool kIsList<std::vector<T>> = true;

template <class T>
AttrKind kind_of_value(const T& value) {
  if constexpr (std::is_same_v<T, float>) return AttrKind::real;
  if constexpr (std::is_same_v<T, std::int64_t>) return AttrKind::integer;
  if constexpr (std::is_same_v<T, std::string>) return AttrKind::text;
  if constexpr (std::is_same_v<T, BodyId>) return AttrKind::graph;
  if constexpr (std::is_same_v<T, Type>) return AttrKind::type;
  if constexpr (std::is_same_v<T, ConstantPtr>)
    return value && is_sparse(*value) ? AttrKind::sparse_tensor : AttrKind::tensor;
  if constexpr (std::is_same_v<T, std::vector<float>>) return AttrKind::reals;
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return AttrKind::integers;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return AttrKind::texts;
  if constexpr (std::is_same_v<T, std::vector<BodyId>>) return AttrKind::graphs;
  if constexpr (std::is_same_v<T, std::vector<Type>>) return AttrKind::types;
  if constexpr (std::is_same_v<T, std::vector<ConstantPtr>>) {
    const bool sparse =
        !value.empty() && std::ranges::all_of(value, [](const ConstantPtr& c) { return c && is_sparse(*c); });
    return sparse ? AttrKind::sparse_tensors : AttrKind::tensors;
  }
}

class AttributeWriter {
 public:
  AttributeWriter(WireWriter& out, const Graph& graph, AttrKind kind, const std::function<void(BodyId)>& write_graph)
      : out_(out), graph_(graph), field_(value_field(kind)), write_graph_(write_graph) {
    sparse_ = kind == AttrKind::sparse_tensor || kind == AttrKind::sparse_tensors;
  }

  void write(float value) { out_.real(field_, value); }
  void write(std::int64_t value) { out_.integer(field_, value); }
  void write(const std::string& value) { out_.text(field_, value); }
  void write(const Type& value) {
    out_.message(field_, [&] { write_type(out_, graph_, value); });
  }
  void write(BodyId value) {
    out_.message(field_, [&] { write_graph_(value); });
  }
  void write(const ConstantPtr& value) {
    if (!value) throw Error("has no tensor");
    out_.message(field_, [&] { sparse_ ? write_sparse_tensor(out_, *value, {}) : write_tensor(out_, *value, {}); });
  }

 private:
  WireWriter& out_;
  const Graph& graph_;
  int field_;
  bool sparse_ = false;
  const std::function<void(BodyId)>& write_graph_;
};

}  // namespace

AttrKind kind_of(const Attr& attr) {
  return std::visit([](const auto& value) { return kind_of_value(value); }, attr);
}

void write_attribute(WireWriter& out, const Graph& graph, std::string_view name, const Attr& attr,
                     const std::function<void(BodyId)>& write_graph) {
  const AttrKind kind = kind_of(attr);
  out.text(1, name);
  AttributeWriter writer(out, graph, kind, write_graph);
  std::visit(
      [&](const auto& value) {
        if constexpr (kIsList<std::decay_t<decltype(value)>>) {
          for (const auto& item : value) writer.write(item);
        } else {
          writer.write(value);
        }
      },
      attr);
  out.integer(20, static_cast<std::int64_t>(kind));
}

}  // namespace finity::onnx
