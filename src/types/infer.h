// Type inference over the op table: a side table with the type of every value,
// and the elements of small tensors that follow from the model alone (shapes,
// axes, constant subexpressions), which other shapes depend on.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

namespace finity {

// What the command line adds to the file: sizes of inputs and of symbols.
struct Bindings {
  std::map<std::string, Dims, std::less<>> inputs;
  std::map<std::string, std::int64_t, std::less<>> symbols;
};

// "x:1,3,224,224", "x:[1,3,224,224]", "x:1x3x224x224", "x:" (a scalar); "batch=4" binds a symbol.
void add_binding(Bindings& bindings, std::string_view text);

// Elements of small integer inputs as far as a contract bounds them: some of them are sizes.
using ElementBounds = std::map<ValueId, Shape>;

// The bindings that speak of an input or dimension of the graph. What the others say goes to `unmatched`: the name and
// a sentence with a suggestion.
Bindings matching_bindings(const Graph& graph, const Bindings& bindings,
                           std::vector<std::pair<std::string, std::string>>& unmatched);

struct Types {
  Bindings bindings;                         // these types were inferred with
  std::vector<Type> of;                      // by ValueId
  std::vector<std::optional<Tensor>> known;  // by ValueId: elements of small values
  std::vector<Note> notes;                   // declared types that contradict, nodes without a rule

  const Type& operator[](ValueId id) const { return of[id.at()]; }
};

// Types of a graph that is still being built: each node's results are typed when it is added.
class GrowingTypes {
 public:
  // `graph` must outlive this; `types` are those of what it holds now.
  GrowingTypes(const Graph& graph, Types types);
  ~GrowingTypes();
  GrowingTypes(GrowingTypes&&) noexcept;

  // Values that were added since. Throws Error naming the node.
  void add_constant(ValueId id);
  void add_node(const Node& node);
  // Declares the type of a value that no node computes.
  void set(ValueId id, Type type);
  const Types& types() const;
  Types take() &&;

 private:
  std::unique_ptr<class Inference> inference_;
};

// Throws Error naming the node when the model contradicts an op's rules.
Types infer_types(const Graph& graph, const Bindings& bindings = {}, const ElementBounds& elements = {});

}  // namespace finity
