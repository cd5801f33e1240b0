// Writes nodes of the op table while a TensorFlow graph is imported: types are known as soon as a node is added, names
// come from the user's node. Constants all go into the main body, equal small ones once.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "types/typed_builder.h"

namespace finity::tensorflow {

class Writer {
 public:
  static constexpr int kOpset = TypedBuilder::kOpset;

  explicit Writer(const std::string& file);

  // Names of nodes that follow: `name` and what `calls` they were inlined from.
  void set_node(std::string name, std::uint64_t offset);
  const std::string& node_name() const { return name_; }

  std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, std::size_t outputs);
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return add(op, std::move(inputs), std::move(attrs), 1).front();
  }
  // A node whose op is not in the table, with what is declared of its results.
  std::vector<ValueId> add_unknown(std::string_view op, std::vector<ValueId> inputs, const std::vector<Type>& outputs);
  ValueId constant(ConstantPtr constant, const std::string& name);
  ValueId ints(const std::vector<std::int64_t>& numbers);
  ValueId scalar(double number, DType dtype);
  ValueId input(const std::string& name, Type type);

  // What is added between begin_body() and end_body() goes into a new body.
  BodyId begin_body(const std::string& name);
  ValueId body_input(const std::string& name, Type type);
  void end_body(std::vector<ValueId> outputs) { built_.end_body(std::move(outputs)); }
  // Gives up bodies that were begun since `depth` were open.
  void return_to(std::size_t depth) { built_.return_to(depth); }
  std::size_t depth() const { return built_.open_bodies().size(); }
  BodyId current_body() const { return built_.current_body(); }
  // Whether a value can be used in the current body.
  bool visible(ValueId id) const;

  const Type& type(ValueId id) const { return built_.type(id); }
  const Tensor* known(ValueId id) const { return built_.known(id); }
  // What the file declares of a computed value's shape, where nothing better is known. False when it cannot have it.
  bool declare(ValueId id, const Type& declared);
  // Sizes that are neither known nor named get a name of their own.
  void name_sizes(ValueId id);
  // The node that computes it gets the plain name, if it has none that a user gave.
  void name_result(ValueId id, const std::string& name, std::size_t first_node);

  GraphBuilder& builder() { return built_.builder(); }
  const Graph& graph() const { return built_.graph(); }
  Graph finish(const std::vector<ValueId>& outputs) &&;

 private:
  std::string fresh(std::string name);
  std::vector<ValueId> place(Node node);
  void set_type(ValueId id, Type type);

  TypedBuilder built_;
  std::string name_;
  std::uint64_t offset_ = 0;
  std::unordered_map<std::string, int> names_;
  std::map<std::vector<std::int64_t>, ValueId> ints_;
  std::map<std::pair<DType, std::string>, ValueId> scalars_;
};

}  // namespace finity::tensorflow
