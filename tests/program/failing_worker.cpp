// failing_worker crash|hang|memory N: searches programs on the reference as the worker on LibTorch does on its library,
// and goes wrong in the N-th pass, at node 'log'.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "exec/received_model.h"
#include "exec/serve.h"
#include "exec/whereabouts.h"
#include "program/engine.h"
#include "program/remote.h"

namespace finity {
namespace {

volatile bool forever = true;

void go_wrong(const std::string& how) {
  working_at("node 'log' (Log)");
  if (how == "crash") std::abort();
  if (how == "hang") ::sleep(1000);
  std::vector<std::string> blocks;
  while (how == "memory" && forever) blocks.emplace_back(std::size_t{1} << 26, 'x');
}

// Everything by the reference, but for one pass.
class FailingTraining final : public TrainingEngine {
 public:
  FailingTraining(const Program& program, std::string how, int passes)
      : engine_(make_reference_engine(program)), how_(std::move(how)), left_(passes) {}

  std::string name() const override { return engine_->name(); }
  std::size_t add_pass(Pass pass) override { return engine_->add_pass(std::move(pass)); }
  void start(std::span<const Tensor> weights) override { engine_->start(weights); }
  Tensor weight(std::size_t i) const override { return engine_->weight(i); }
  void set_weight(std::size_t i, const Tensor& weight) override { engine_->set_weight(i, weight); }
  void feed(ValueId input, const Tensor& tensor) override { engine_->feed(input, tensor); }
  void set_seed(std::uint64_t seed) override { engine_->set_seed(seed); }
  PassResult run(std::size_t pass) override {
    if (--left_ == 0) go_wrong(how_);
    return engine_->run(pass);
  }
  bool train() override { return engine_->train(); }
  std::vector<NodeId> failures(std::span<const ValueId> wanted) override { return engine_->failures(wanted); }
  std::shared_ptr<const State> state() const override { return engine_->state(); }
  void go_back(const State& state) override { engine_->go_back(state); }

 private:
  std::unique_ptr<TrainingEngine> engine_;
  std::string how_;
  int left_;
};

class FailingEngine final : public Engine {
 public:
  FailingEngine(std::string how, int passes) : how_(std::move(how)), passes_(passes) {}

  Hello hello() const override { return {.engine = "failing", .version = "1"}; }
  void load(std::string_view model, Optimisation /*level*/) override { graph_ = received_model(model); }
  NamedData run(const RunRequest&, const std::function<void(Stage)>&) override { return {}; }
  TaskResult task(const TaskRequest& request, const std::function<bool(const std::string&)>& tell) override {
    const MakeEngine make = [this](const Program& program) {
      return std::make_unique<FailingTraining>(program, how_, passes_);
    };
    return do_search(graph_, request, make, tell);
  }

 private:
  std::string how_;
  int passes_;
  std::shared_ptr<const Graph> graph_;
};

}  // namespace
}  // namespace finity

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  finity::tell_whereabouts();
  return finity::serve([&] { return std::make_unique<finity::FailingEngine>(argv[1], std::atoi(argv[2])); });
}
