// A library that runs models in a process of its own. Whatever happens there, the answer says so: results, a refusal,
// a crash or a hang and how far it had come. After a crash or a hang the next request starts a new process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "exec/protocol.h"

namespace finity {

struct WorkerOptions {
  std::vector<std::string> command = {};                // the worker program and its arguments
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;  // address space; 0: no limit
  unsigned cpu_seconds = 20;                            // per request
  double seconds = 60;                                  // per request, on the wall; a busy machine takes its time
  int restart_after = 5000;                             // requests, since libraries leak; 0: never
};

struct Request {
  std::string model = {};  // the bytes of an ONNX file; kept loaded while the following requests have the same
  Optimisation level = Optimisation::none;
  RunRequest run = {};
};

// The same for derivatives.
struct DerivativeRequest {
  std::string model = {};
  GradientRequest gradient = {};
};

// Something longer: `tell` hears of progress and says whether to go on. The worker is late when nothing is heard of it
// for WorkerOptions::seconds.
struct LongRequest {
  std::string model = {};
  TaskRequest task = {};
  double seconds = 60;  // what it is expected to take
  std::function<bool(const std::string&)> tell = {};
};

struct Answer {
  enum class Outcome : std::uint8_t { done, refused, unsupported, crashed, late };

  Outcome outcome = Outcome::done;
  Stage stage = Stage::start;  // how far it had come
  std::string text = {};       // why it is not done
  NamedData outputs = {};
  NamedData gradients = {};  // of Worker::gradient, whose output is in `outputs`

  std::string words = {};  // of Worker::task, whose tensors are in `outputs`

  bool done() const { return outcome == Outcome::done; }
};
std::string_view name(Answer::Outcome outcome);

class Worker {
 public:
  explicit Worker(WorkerOptions options) : options_(std::move(options)) {}

  // Starts the process if need be. Throws Error when it does not come up.
  const Hello& hello();
  // Throws Error only when the process cannot be started.
  Answer run(const Request& request);
  Answer gradient(const DerivativeRequest& request);
  Answer task(const LongRequest& request);
  int starts() const { return starts_; }

 private:
  using Deadline = Subprocess::Clock::time_point;

  void start();
  // Loads the model if need be, sends the message and hands over what comes back to it.
  Answer ask(const std::string& model, Optimisation level, const std::string& message,
             const std::function<void(const std::string&, Answer&)>& read);
  bool load(const std::string& model, Optimisation level, Deadline deadline, Answer& answer);
  // One request and what comes back, empty when the process did not survive; the answer then says why.
  std::string exchange(const std::string& message, Deadline deadline, Answer& answer);
  Deadline patience() const;
  bool send(const std::string& message, Deadline deadline, Answer& answer);
  bool receive(std::string& message, Deadline deadline, Answer& answer);
  bool moved(Subprocess::Transfer transfer, Answer& answer);
  void give_up(Answer& answer, Answer::Outcome outcome, std::string why);
  bool failed(const std::string& message, Answer& answer) const;

  WorkerOptions options_;
  Hello hello_ = {};
  std::unique_ptr<Subprocess> process_;
  std::string loaded_ = {};  // the model in the process; none after a refusal
  Optimisation level_ = Optimisation::none;
  bool has_model_ = false;
  int requests_ = 0;
  int starts_ = 0;
};

}  // namespace finity
