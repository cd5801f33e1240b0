#include "trigger/bring_out.h"

#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/unique_names.h"
#include "tensor/convert.h"
#include "types/typed_builder.h"

namespace finity {

namespace {

class BringOut {
 public:
  BringOut(const Graph& graph, DType dtype, double unhurt)
      : builder_(graph), names_(graph), dtype_(dtype), unhurt_(unhurt) {}

  // The value in the main body; invalid when there is no way out.
  ValueId run(ValueId id, BodyId body) {
    const ValueId all = constant(body, DType::int64, {1}, -1);
    id = add(body, "Reshape", {id, all});  // branches may give other shapes
    while (id.valid() && body != Graph::kMain) {
      const NodeId owner = builder_.body(body).owner;
      id = out_of(body, owner, id);
      body = builder_.node(owner).body;
    }
    return id;
  }

  Graph finish() && { return std::move(builder_).build(); }

 private:
  ValueId constant(BodyId body, DType dtype, Dims dims, double x) {
    const double numbers[] = {x};
    return builder_.add_constant(body, names_.make("searched"),
                                 make_constant(from_elements<double>(dtype, std::move(dims), numbers)));
  }

  ValueId add(BodyId body, std::string_view op, std::vector<ValueId> inputs) {
    Node node = TypedBuilder::node_named(op, std::move(inputs), {});
    const ValueId out = builder_.add_value(body, names_.make("searched"));
    node.outputs = {out};
    node.body = body;
    builder_.add_node(std::move(node));
    return out;
  }

  ValueId out_of(BodyId body, NodeId owner, ValueId id) {
    const std::string op(builder_.node(owner).op_type);
    if (!builder_.node(owner).domain.empty()) return {};
    std::size_t outputs = builder_.body(body).outputs.size();
    if (op == "If") {
      for (const BodyId branch : bodies_of(builder_.node(owner).attrs)) {
        // A subgraph gives what its own nodes compute.
        const ValueId other = branch == body ? id : add(branch, "Identity", {constant(branch, dtype_, {1}, unhurt_)});
        builder_.add_output(branch, other);
      }
    } else if (op == "Loop" && outputs > 0) {
      builder_.add_output(body, id);
      --outputs;  // the condition is no result
    } else if (op == "Scan" && builder_.node(owner).version >= 9 && !has_output_axes(owner)) {
      builder_.add_output(body, id);
    } else {
      return {};
    }
    const ValueId out = builder_.add_value(builder_.node(owner).body, names_.make("searched"));
    builder_.value(out).producer = owner;
    builder_.node(owner).outputs.resize(outputs);
    builder_.node(owner).outputs.push_back(out);
    return out;
  }

  bool has_output_axes(NodeId owner) {
    const Attrs& attrs = builder_.node(owner).attrs;
    return attrs.find("scan_output_axes") != nullptr || attrs.find("scan_output_directions") != nullptr;
  }

  GraphBuilder builder_;
  UniqueNames names_;
  DType dtype_;
  double unhurt_;
};

}  // namespace

std::optional<BroughtOut> brought_out(const Graph& graph, const Types& types, const Bindings& bindings, ValueId id,
                                      BodyId body, double unhurt) {
  if (!types[id].is_tensor() || !is_float(types[id].dtype)) return std::nullopt;
  BringOut way(graph, types[id].dtype, unhurt);
  BroughtOut result;
  result.value = way.run(id, body);
  if (!result.value.valid()) return std::nullopt;
  try {
    result.graph = std::move(way).finish();
    result.types = infer_types(result.graph, bindings);
  } catch (const Error&) {
    return std::nullopt;
  }
  return result;
}

}  // namespace finity
