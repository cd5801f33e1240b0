// Small TensorFlow graphs as text, and what they compute.
#pragma once

#include <gtest/gtest.h>

#include <iomanip>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "exec/reference.h"
#include "formats/tensorflow/tensorflow.h"
#include "tensor/convert.h"

namespace finity::tensorflow_test {

struct A {
  std::string key;
  std::string value;  // text of the AttrValue
};

inline A type(const std::string& key, const std::string& dtype) { return {key, "type: DT_" + dtype}; }
inline A text(const std::string& key, const std::string& value) { return {key, "s: \"" + value + "\""}; }
inline A function(const std::string& key, const std::string& name) { return {key, "func { name: \"" + name + "\" }"}; }

inline std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<A>& attrs = {}, const std::string& field = "node") {
  std::string out = field + " { name: \"" + name + "\" op: \"" + op + "\"";
  for (const std::string& input : inputs) out += " input: \"" + input + "\"";
  for (const A& attr : attrs) out += " attr { key: \"" + attr.key + "\" value { " + attr.value + " } }";
  return out + " }\n";
}

inline std::string constant(const std::string& name, const std::string& dtype, const std::string& values,
                            const std::string& dims = "", const std::vector<std::string>& controls = {}) {
  return node(name, "Const", controls,
              {type("dtype", dtype),
               {"value", "tensor { dtype: DT_" + dtype + " tensor_shape { " + dims + " } " + values + " }"}});
}
inline std::string integer(const std::string& name, int value, const std::vector<std::string>& controls = {}) {
  return constant(name, "INT32", "int_val: " + std::to_string(value), "", controls);
}
inline std::string real(const std::string& name, double value, const std::vector<std::string>& controls = {}) {
  std::ostringstream digits;
  digits << std::setprecision(9) << value;
  return constant(name, "FLOAT", "float_val: " + digits.str(), "", controls);
}
inline std::string placeholder(const std::string& name, const std::string& dtype, const std::string& dims = "") {
  return node(name, "Placeholder", {}, {type("dtype", dtype), {"shape", "shape { " + dims + " }"}});
}
inline const std::string kVersions = "versions { producer: 200 }\n";

inline Graph read(const std::string& pbtxt, std::vector<Note>* notes = nullptr) {
  std::vector<Note> own;
  return read_tensorflow(pbtxt, "g.pbtxt", notes == nullptr ? own : *notes);
}

inline std::string read_error(const std::string& pbtxt) {
  try {
    read(pbtxt);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The elements of the output that is called `name`.
inline std::vector<double> value_of(const Graph& graph, const std::string& name, const Inputs& inputs = {}) {
  const std::vector<Datum> results = run_reference(graph, inputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (graph.value(graph.main().outputs[i]).name == name) return elements<double>(*results[i].tensor());
  }
  ADD_FAILURE() << "no output is called " << name;
  return {};
}

inline const Node* node_named(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes()) {
    if (node.name == name) return &node;
  }
  return nullptr;
}

}  // namespace finity::tensorflow_test
