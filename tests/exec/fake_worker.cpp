// fake_worker [start-failure|start-crash]: a worker for tests. The "model" is a word that says what goes wrong.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "exec/serve.h"

namespace finity {
namespace {

volatile bool forever = true;

class FakeEngine final : public Engine {
 public:
  Hello hello() const override { return {.engine = "fake", .version = "1.2.3"}; }

  void load(std::string_view model, Optimisation level) override {
    model_ = model;
    level_ = level;
    ++loads_;
    if (model_ == "refuse") throw Error("this is not a model");
    if (model_ == "unsupported") throw Unsupported("no such kernel");
    if (model_ == "crash on load") std::raise(SIGSEGV);
  }

  NamedData run(const RunRequest& request, const std::function<void(Stage)>& stage) override {
    if (model_ == "child" || model_ == "child and crash") return with_child();
    misbehave();
    stage(Stage::read);
    if (model_ == "crash on read") std::raise(SIGBUS);
    NamedData outputs = request.inputs;  // handed back under the wanted names
    outputs.resize(request.outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].first = request.outputs[i];
    outputs.emplace_back("level", Tensor::scalar(static_cast<std::int64_t>(level_)));
    outputs.emplace_back("loads", Tensor::scalar(loads_));
    return outputs;
  }

 private:
  // Starts a process of its own that stays, and tells its number.
  NamedData with_child() const {
    const pid_t child = ::fork();
    if (child == 0) {
      ::sleep(1000);
      ::_exit(0);
    }
    if (model_ == "child and crash") {
      std::fprintf(stderr, "child %d\n", child);
      ::_exit(3);
    }
    return {{"y", Tensor::scalar(static_cast<std::int64_t>(child))}};
  }
  void misbehave() const {
    if (model_ == "noise") std::puts("a library that prints");
    if (model_ == "crash on run") {
      std::fputs("the table is on fire\n", stderr);
      std::abort();
    }
    if (model_ == "leave") ::_exit(3);
    while (model_ == "spin" && forever) {
    }
    if (model_ == "sleep") ::sleep(1000);
    if (model_ == "swallow") swallow();
    if (model_ == "garbage") garbage();
  }
  static void swallow() {
    std::vector<std::string> blocks;
    while (forever) blocks.emplace_back(std::size_t{1} << 24, 'x');
  }
  // A library that gets hold of the channel itself.
  static void garbage() {
    for (int fd = 3; fd < 16; ++fd) {
      [[maybe_unused]] const ssize_t written = ::write(fd, "\2\0\0\0\0\0\0\0\x7f?", 10);
    }
  }

  std::string model_;
  Optimisation level_ = Optimisation::none;
  std::int64_t loads_ = 0;
};

}  // namespace
}  // namespace finity

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  return finity::serve([&]() -> std::unique_ptr<finity::Engine> {
    if (how == "start-failure") throw finity::Error("the library is not there");
    if (how == "start-crash") std::abort();
    return std::make_unique<finity::FakeEngine>();
  });
}
