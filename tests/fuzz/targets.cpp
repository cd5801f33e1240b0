#include "fuzz/targets.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "check/contract.h"
#include "formats/npz/npz.h"
#include "formats/onnx/onnx.h"
#include "formats/tensorflow/tensorflow.h"
#include "formats/text/cases.h"
#include "formats/text/text.h"
#include "formats/toml/toml.h"
#include "report/known.h"
#include "types/infer.h"

namespace finity {

namespace {

// Reading again what we wrote must succeed and give the same graph.
void check_round_trip(const Graph& graph) {
  std::string written;
  try {
    written = write_onnx(graph);
  } catch (const Error&) {
    return;  // a graph may hold what ONNX cannot say
  }
  std::vector<Note> notes;
  const Graph again = read_onnx({.bytes = std::as_bytes(std::span(written.data(), written.size())),
                                 .owner = nullptr,
                                 .name = "again",
                                 .directory = {}},
                                notes);
  if (again.nodes().size() != graph.nodes().size()) std::abort();
}

bool use(const Graph& graph) {
  print_graph(graph);
  infer_types(graph);
  return true;
}

}  // namespace

bool fuzz_onnx(std::span<const std::byte> bytes) {
  try {
    std::vector<Note> notes;
    const Graph graph = read_onnx({.bytes = bytes, .owner = nullptr, .name = "fuzzed", .directory = {}}, notes);
    check_round_trip(graph);
    return use(graph);
  } catch (const Error&) {
    return false;
  }
}

bool fuzz_tensor(std::span<const std::byte> bytes) {
  bool accepted = false;
  for (const Type::Kind kind : {Type::Kind::tensor, Type::Kind::sequence, Type::Kind::optional}) {
    try {
      read_datum_proto(bytes, kind);
      accepted = true;
    } catch (const Error&) {
      continue;
    }
  }
  return accepted;
}

bool fuzz_npz(std::span<const std::byte> bytes) {
  try {
    read_npz(bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool fuzz_text(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bool accepted = false;
  try {
    const Graph graph = parse_graph(text, "fuzzed");
    if (print_graph(parse_graph(print_graph(graph), "printed")) != print_graph(graph)) std::abort();
    accepted = use(graph);
  } catch (const Error&) {
    accepted = false;
  }
  try {
    parse_cases(text, "fuzzed");
    return true;
  } catch (const Error&) {
    return accepted;
  }
}

bool fuzz_tensorflow(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    std::vector<Note> notes;
    return use(read_tensorflow(text, "fuzzed", notes));
  } catch (const Error&) {
    return false;
  }
}

// Contracts and finity.toml, baselines, and what is declared on the command line.
bool fuzz_settings(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bool accepted = false;
  const auto attempt = [&](auto&& read) {
    try {
      read();
      accepted = true;
    } catch (const Error&) {
      return;
    }
  };
  Contract contract;
  attempt([&] { parse_contract(text, "fuzzed"); });
  attempt([&] { parse_toml(text, "fuzzed"); });
  attempt([&] { parse_baseline(text, "fuzzed"); });
  attempt([&] { add_range(contract, text); });
  attempt([&] { add_order(contract, text, "fuzzed"); });
  return accepted;
}

}  // namespace finity
