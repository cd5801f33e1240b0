// The worker's side of the protocol: a worker program is an Engine and a main() that hands it to serve().
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "exec/protocol.h"

namespace finity {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual Hello hello() const = 0;
  // Both throw Error when the library refuses, Unsupported when it says that it does not implement something.
  virtual void load(std::string_view model, Optimisation level) = 0;
  // `stage` is to be called when the library is done and its results are being read.
  virtual NamedData run(const RunRequest& request, const std::function<void(Stage)>& stage) = 0;
  // Engines without derivatives throw Unsupported.
  virtual Gradients gradient(const GradientRequest& request, const std::function<void(Stage)>& stage);
  // Something longer. `tell` sends how far it is and says whether to go on. Engines without tasks throw Unsupported.
  virtual TaskResult task(const TaskRequest& request, const std::function<bool(const std::string&)>& tell);
};

// Answers requests on standard input until it ends; the result is the exit code. Whatever the library prints goes to
// standard error. `make` may throw Error: finity is told.
int serve(const std::function<std::unique_ptr<Engine>()>& make);

}  // namespace finity
