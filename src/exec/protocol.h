// What finity and a worker process say to each other. A message is its length in bytes (8 bytes, little-endian), a
// byte that says what it is, and its content. Texts and lists carry their length before them. The worker speaks
// first: a hello, or a failure. Then it answers one request after the other; docs/adding-a-backend.md has the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/table/datum.h"

namespace finity {

inline constexpr std::uint32_t kProtocolVersion = 3;
inline constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 33;

enum class Message : std::uint8_t {
  hello = 1,      // worker: I am here
  load = 2,       // finity: take this model; it replaces the one before
  run = 3,        // finity: run it
  stage = 4,      // worker: now I am doing this, in case I do not come back
  loaded = 5,     // worker: the model was accepted
  results = 6,    // worker: the outputs
  failure = 7,    // worker: it cannot be done, and why
  gradient = 8,   // finity: run it and derive an output
  gradients = 9,  // worker: the output and its derivatives
  task = 10,      // finity: do something longer with the model, and tell of it
  progress = 11,  // worker: how far the task is
  stop = 12,      // finity: end the task with what there is
  finished = 13,  // worker: what the task came to
};

// How far a request had come.
enum class Stage : std::uint8_t { start, load, run, read };
std::string_view name(Stage stage);

// How much the engine may change the model before running it.
enum class Optimisation : std::uint8_t { none, basic, extended, all };
std::string_view name(Optimisation level);

using NamedData = std::vector<std::pair<std::string, Datum>>;

struct Hello {
  std::uint32_t protocol = kProtocolVersion;
  std::string engine = {};   // "onnxruntime"
  std::string version = {};  // as the library itself says
};

struct LoadRequest {
  std::string model = {};  // the bytes of an ONNX file
  Optimisation level = Optimisation::none;
};

struct RunRequest {
  NamedData inputs = {};
  std::vector<std::string> outputs = {};
};

// The derivatives of an output with one element with respect to float inputs or weights, named.
struct GradientRequest {
  NamedData inputs = {};  // and weights to replace
  std::string output = {};
  std::vector<std::string> names = {};
};

struct Gradients {
  Datum value = {};
  NamedData gradients = {};  // in the order of the names; zeros where nothing depends on it
};

// Something that takes many runs and is done where the library is: a search. What it says and gives is between whoever
// asks and the engine.
struct TaskRequest {
  std::string text = {};
  NamedData data = {};
};

struct TaskResult {
  std::string text = {};
  NamedData data = {};
};

struct Failure {
  bool unsupported = false;  // the engine does not implement it: not a mistake of the model
  std::string text = {};
};

std::string encode(const Hello& hello);
std::string encode(const LoadRequest& request);
std::string encode(const RunRequest& request);
std::string encode(const GradientRequest& request);
std::string encode(const Gradients& gradients);
std::string encode(Stage stage);
std::string encode(const NamedData& results);
std::string encode(const Failure& failure);
std::string encode(const TaskRequest& request);
std::string encode(const TaskResult& result);
std::string encode_loaded();
std::string encode_progress(std::string_view text);
std::string encode_stop();

// What a message is; the decoders below take a message of their kind and throw Error on anything else.
Message kind_of(std::string_view message);
Hello decode_hello(std::string_view message);
LoadRequest decode_load(std::string_view message);
RunRequest decode_run(std::string_view message);
GradientRequest decode_gradient(std::string_view message);
Gradients decode_gradients(std::string_view message);
Stage decode_stage(std::string_view message);
NamedData decode_results(std::string_view message);
Failure decode_failure(std::string_view message);
TaskRequest decode_task(std::string_view message);
TaskResult decode_finished(std::string_view message);
std::string decode_progress(std::string_view message);

}  // namespace finity
