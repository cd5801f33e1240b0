// A search in a worker process: the prepared program goes there as one message, and what came of it comes back. Both
// sides are here, so that they stay alike.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/protocol.h"
#include "exec/worker.h"
#include "program/engine.h"
#include "program/search_program.h"
#include "program/suspects.h"
#include "program/trainer.h"

namespace finity {

TaskRequest encode_search(const Prepared& prepared, const ProgramSearch& options);
// For the worker: does what was asked with the engine it makes.
using MakeEngine = std::function<std::unique_ptr<TrainingEngine>(const Program&)>;
TaskResult do_search(std::shared_ptr<const Graph> graph, const TaskRequest& request, const MakeEngine& make,
                     const std::function<bool(const std::string&)>& tell);
ProgramOutcome decode_search(const std::string& text, const NamedData& data);

// Repeats a run there; nothing when the worker cannot.
std::optional<Repeated> repeat_in_worker(const Program& program, const TrainingRun& run, Worker& worker);

// A run as named tensors and back, for messages and for files.
NamedData tensors_of(const TrainingRun& run);
TrainingRun run_from(const NamedData& data);

struct Progress {
  double seconds = 0;
  std::uint64_t iterations = 0;
  double closest = 0;
};
Progress decode_search_progress(const std::string& text);
// A failure that was seen on the way, when the text tells of one.
std::optional<ProgramOutcome> decode_search_found(const std::string& text);

}  // namespace finity
