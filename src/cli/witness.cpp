#include "cli/witness.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "formats/npz/npz.h"
#include "formats/onnx/onnx.h"
#include "formats/png/png.h"
#include "graph/builder.h"
#include "graph/unique_names.h"
#include "report/collect.h"
#include "tensor/convert.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

// A name for a folder: letters, digits and what is harmless.
std::string folder_name(const std::string& model, const Alarm& alarm) {
  std::string name = fs::path(model).stem().string() + "-" + std::string(alarm.rule->code) + "-" + alarm.place.name();
  constexpr std::size_t kLongest = 100;
  name.resize(std::min(name.size(), kLongest));
  for (char& c : name) {
    const bool harmless =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    if (!harmless) c = '_';
  }
  // The same node of another model of that name is another finding.
  constexpr std::size_t kDigits = 8;
  return name + "-" + fingerprint(*alarm.rule, {.node = alarm.fingerprint, .scope = model}, 0, 0).substr(0, kDigits);
}

NamedTensors inputs_of(const Graph& graph, const Drawn& drawn) {
  NamedTensors inputs;
  for (const ValueId id : graph.main().inputs) {
    const auto given = drawn.inputs.find(graph.value(id).name);
    if (given != drawn.inputs.end() && given->second.tensor() != nullptr) {
      inputs.emplace_back(given->first, *given->second.tensor());
    }
  }
  return inputs;
}

// Whoever read what a random op drew reads a constant instead.
void replace_draw(GraphBuilder& builder, UniqueNames& names, ValueId drawn, const Tensor& tensor) {
  const ValueId constant =
      builder.add_constant(Graph::kMain, names.make(builder.value(drawn).name + "/drawn"), make_constant(tensor));
  const auto replace = [&](ValueId& id) {
    if (id == drawn) id = constant;
  };
  for (std::size_t i = 0; i < builder.node_count(); ++i) {
    std::ranges::for_each(builder.node({static_cast<std::int32_t>(i)}).inputs, replace);
  }
  std::ranges::for_each(builder.body(Graph::kMain).outputs, replace);
}

// The model as it was run: converted, with its backward pass and with the weights of the witness, if so.
void write_model(const fs::path& folder, const Graph& graph, const Drawn& drawn) {
  GraphBuilder builder(graph);
  UniqueNames names(graph);
  for (const auto& [id, datum] : drawn.weights) {
    if (datum.tensor() == nullptr) continue;
    if (builder.value(id).producer.valid()) replace_draw(builder, names, id, *datum.tensor());
    else builder.value(id).constant = make_constant(*datum.tensor());
  }
  write_file_atomically((folder / kWitnessModel).string(), write_onnx(std::move(builder).build()));
}

// For people who have Python and ONNX Runtime and nothing else.
constexpr std::string_view kScript = R"(#!/usr/bin/env python3
"""Runs model.onnx on the inputs beside it with ONNX Runtime and counts what is not finite."""
import glob
import os

import numpy
import onnx
import onnxruntime

here = os.path.dirname(os.path.abspath(__file__))
inputs = {}
for path in sorted(glob.glob(os.path.join(here, "test_data_set_0", "input_*.pb"))):
    tensor = onnx.TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    inputs[tensor.name] = onnx.numpy_helper.to_array(tensor)
session = onnxruntime.InferenceSession(os.path.join(here, "model.onnx"), providers=["CPUExecutionProvider"])
for output, value in zip(session.get_outputs(), session.run(None, inputs)):
    bad = int(numpy.sum(~numpy.isfinite(value))) if numpy.issubdtype(value.dtype, numpy.floating) else 0
    print(output.name, value.dtype, value.shape, f"{bad} not finite" if bad else "finite")
)";

void write_description(const fs::path& folder, const std::string& model, const Alarm& alarm, bool flushed) {
  nlohmann::ordered_json json = {{"model", model},
                                 {"rule", std::string(alarm.rule->code)},
                                 {"node", alarm.place.title},
                                 {"output", alarm.place.output},
                                 {"seen", alarm.failure.what},
                                 {"replay", "finity replay ."}};
  if (flushed) json["flush_subnormals"] = true;
  write_file_atomically((folder / kWitnessDescription).string(), json.dump(2) + "\n");
}

void write_data_set(const fs::path& folder, const Graph& graph, const FailingRun& witness) {
  fs::create_directories(folder / "test_data_set_0");
  const auto write = [&](const std::string& kind, std::size_t i, const Tensor& tensor, const std::string& name) {
    const fs::path file = folder / "test_data_set_0" / (kind + "_" + std::to_string(i) + ".pb");
    write_file_atomically(file.string(), write_tensor_proto(tensor, name));
  };
  NamedTensors arrays = inputs_of(graph, *witness.drawn);
  for (std::size_t i = 0; i < arrays.size(); ++i) write("input", i, arrays[i].second, arrays[i].first);
  const std::vector<ValueId>& outputs = graph.main().outputs;
  for (std::size_t i = 0; i < witness.outputs.size() && i < outputs.size(); ++i) {
    const Tensor* tensor = witness.outputs[i].tensor();
    if (tensor != nullptr) write("output", i, *tensor, graph.value(outputs[i]).name);
  }
  for (const auto& [id, datum] : witness.drawn->weights) {
    if (datum.tensor() != nullptr) arrays.emplace_back(graph.value(id).name, *datum.tensor());
  }
  write_file_atomically((folder / "inputs.npz").string(), write_npz(arrays));
}

// Inputs that are batches of images, to be looked at: black is 0 or the smallest number, white 1 or the largest.
void write_pictures(const fs::path& folder, const Graph& graph, const Drawn& drawn) {
  constexpr std::size_t kMost = 64;
  std::size_t number = 0;
  for (const auto& [name, tensor] : inputs_of(graph, drawn)) {
    ++number;
    if (tensor.rank() < 3 || tensor.empty() || is_complex(tensor.dtype()) || tensor.dtype() == DType::string) continue;
    const std::optional<ImageShape> shape = image_shape({tensor.dims().begin() + 1, tensor.dims().end()});
    if (!shape) continue;
    double lo = 0, hi = 1;
    for (const double x : elements<double>(tensor)) {
      if (!std::isfinite(x)) continue;
      lo = std::min(lo, x);
      hi = std::max(hi, x);
    }
    const std::string file = "input_" + std::to_string(number - 1) + ".png";
    write_file_atomically((folder / file).string(), write_png(picture_of(tensor, *shape, lo, hi, kMost)));
  }
}

// Under another name first: whoever looks finds all of it or nothing.
void write_folder(const fs::path& target, const Graph& graph, const FailingRun& witness, const std::string& model,
                  const Alarm& alarm) {
  const fs::path partial = target.parent_path() / ("." + target.filename().string() + ".partial");
  try {
    fs::remove_all(partial);
    write_data_set(partial, graph, witness);
    write_pictures(partial, graph, *witness.drawn);
    write_model(partial, graph, *witness.drawn);
    write_description(partial, model, alarm, witness.drawn->flush_subnormals);
    write_file_atomically((partial / "replay.py").string(), std::string(kScript));
    fs::remove_all(target);
    fs::rename(partial, target);
  } catch (const fs::filesystem_error& error) {
    throw Error("--witness: cannot write " + target.string() + ": " + error.code().message());
  }
}

}  // namespace

void write_witnesses(Report& report, const Graph& graph, std::span<const FailingRun> witnesses,
                     const std::string& folder) {
  for (Alarm& alarm : report.alarms) {
    const auto witness = std::ranges::find(witnesses, alarm.finding, &FailingRun::finding);
    if (witness == witnesses.end() || !alarm.counts()) continue;
    const fs::path target = fs::path(folder) / folder_name(report.model, alarm);
    write_folder(target, graph, *witness, report.model, alarm);
    alarm.failure.folder = target.string();
  }
}

}  // namespace finity
