// Compares two graphs by what they say: names, not ids. The text of the first
// difference is empty when there is none.
#pragma once

#include <algorithm>
#include <string>

#include "graph/graph.h"

namespace finity::onnx_test {

class Difference {
 public:
  Difference(const Graph& a, const Graph& b) : a_(a), b_(b) {}

  std::string find() {
    compare_info();
    compare_bodies(Graph::kMain, Graph::kMain);
    return text_;
  }

 private:
  template <class T>
  void expect_equal(const T& a, const T& b, const std::string& what) {
    if (text_.empty() && !(a == b)) text_ = what;
  }

  void compare_info() {
    const ModelInfo& a = a_.info();
    const ModelInfo& b = b_.info();
    expect_equal(a.ir_version, b.ir_version, "ir_version");
    expect_equal(a.producer_name, b.producer_name, "producer_name");
    expect_equal(a.producer_version, b.producer_version, "producer_version");
    expect_equal(a.domain, b.domain, "domain");
    expect_equal(a.doc, b.doc, "doc");
    expect_equal(a.model_version, b.model_version, "model_version");
    expect_equal(a.metadata, b.metadata, "metadata");
    expect_equal(a.opsets, b.opsets, "opsets");
  }

  void compare_bodies(BodyId ida, BodyId idb) {
    const Body& a = a_.body(ida);
    const Body& b = b_.body(idb);
    expect_equal(a.name, b.name, "body name " + a.name);
    expect_equal(a.doc, b.doc, "doc of body " + a.name);
    expect_equal(a.metadata, b.metadata, "metadata of body " + a.name);
    compare_values(a.inputs, b.inputs, "inputs of body " + a.name);
    compare_values(a.outputs, b.outputs, "outputs of body " + a.name);
    compare_values(a.constants, b.constants, "constants of body " + a.name);
    expect_equal(a.nodes.size(), b.nodes.size(), "number of nodes of body " + a.name);
    for (std::size_t i = 0; text_.empty() && i < a.nodes.size(); ++i) {
      compare_nodes(a_.node(a.nodes[i]), b_.node(b.nodes[i]));
    }
  }

  void compare_values(const std::vector<ValueId>& a, const std::vector<ValueId>& b, const std::string& what) {
    expect_equal(a.size(), b.size(), what + ": number");
    for (std::size_t i = 0; text_.empty() && i < a.size(); ++i) {
      expect_equal(a[i].valid(), b[i].valid(), what + ": omitted");
      if (!text_.empty() || !a[i].valid()) continue;
      const Value& left = a_.value(a[i]);
      const Value& right = b_.value(b[i]);
      expect_equal(left.name, right.name, what + ": name " + left.name + " / " + right.name);
      const std::string left_type = to_string(a_, left.type);
      const std::string right_type = to_string(b_, right.type);
      expect_equal(left_type, right_type, what + ": type of " + left.name + ": " + left_type + " / " + right_type);
      compare_constants(left.constant, right.constant, what + ": " + left.name);
    }
  }

  void compare_constants(const ConstantPtr& a, const ConstantPtr& b, const std::string& what) {
    expect_equal(a == nullptr, b == nullptr, what + ": presence");
    if (!text_.empty() || !a) return;
    expect_equal(a->dtype(), b->dtype(), what + ": dtype");
    expect_equal(a->dims(), b->dims(), what + ": dims");
    expect_equal(a->sparse(), b->sparse(), what + ": sparse");
    expect_equal(a->missing(), b->missing(), what + ": missing");
    if (!text_.empty() || !a->missing().empty()) return;
    expect_equal(identical(a->load(), b->load()), true, what + ": elements");
  }

  void compare_nodes(const Node& a, const Node& b) {
    const std::string what = describe(a_, a);
    expect_equal(a.op, b.op, what + ": op");
    expect_equal(a.op_type, b.op_type, what + ": op_type");
    expect_equal(a.domain, b.domain, what + ": domain");
    expect_equal(a.version, b.version, what + ": version");
    expect_equal(a.name, b.name, what + ": name " + b.name);
    compare_values(a.inputs, b.inputs, what + ": inputs");
    compare_values(a.outputs, b.outputs, what + ": outputs");
    compare_values(a.captures, b.captures, what + ": captures");
    compare_origins(a.where.origin.get(), b.where.origin.get(), what);
    const auto count = [](const Attrs& attrs) { return std::distance(attrs.begin(), attrs.end()); };
    expect_equal(count(a.attrs), count(b.attrs), what + ": number of attributes");
    if (!text_.empty()) return;
    auto other = b.attrs.begin();
    for (const auto& [name, value] : a.attrs) {
      expect_equal(name, other->first, what + ": attribute name " + name);
      compare_attrs(value, other->second, what + ": attribute " + name);
      ++other;
    }
  }

  void compare_origins(const Origin* a, const Origin* b, const std::string& what) {
    expect_equal(a == nullptr, b == nullptr, what + ": origin");
    if (a == nullptr || b == nullptr) return;
    expect_equal(a->doc, b->doc, what + ": doc");
    expect_equal(a->metadata, b->metadata, what + ": metadata");
    expect_equal(a->overload, b->overload, what + ": overload");
    expect_equal(a->calls, b->calls, what + ": calls");
  }

  void compare_attrs(const Attr& a, const Attr& b, const std::string& what) {
    expect_equal(kind_name(a), kind_name(b), what + ": kind");
    if (!text_.empty()) return;
    std::visit([&](const auto& left) { compare_items(left, std::get<std::decay_t<decltype(left)>>(b), what); }, a);
  }

  template <class T>
  void compare_items(const T& a, const T& b, const std::string& what) {
    expect_equal(a, b, what);
  }
  void compare_items(float a, float b, const std::string& what) {
    expect_equal(std::string(reinterpret_cast<const char*>(&a), sizeof a),
                 std::string(reinterpret_cast<const char*>(&b), sizeof b), what);
  }
  void compare_items(const ConstantPtr& a, const ConstantPtr& b, const std::string& what) {
    compare_constants(a, b, what);
  }
  void compare_items(BodyId a, BodyId b, const std::string&) { compare_bodies(a, b); }
  void compare_items(const Type& a, const Type& b, const std::string& what) {
    expect_equal(to_string(a_, a), to_string(b_, b), what);
  }
  template <class T>
  void compare_items(const std::vector<T>& a, const std::vector<T>& b, const std::string& what) {
    expect_equal(a.size(), b.size(), what + ": length");
    for (std::size_t i = 0; text_.empty() && i < a.size(); ++i) compare_items(a[i], b[i], what);
  }

  const Graph& a_;
  const Graph& b_;
  std::string text_;
};

inline std::string difference(const Graph& a, const Graph& b) { return Difference(a, b).find(); }

}  // namespace finity::onnx_test
