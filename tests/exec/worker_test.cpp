// A worker process that refuses, crashes, hangs, prints or talks nonsense: the answer says so, and the next request
// is answered as if nothing had happened.
#include "exec/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "base/error.h"
#include "ops/table/datum.h"

namespace finity {
namespace {

using testing::HasSubstr;
using Outcome = Answer::Outcome;

Worker fake(WorkerOptions options = {}, const std::string& how = "") {
  options.command = {FINITY_FAKE_WORKER};
  options.memory_bytes = 0;  // sanitizers want a large address space
  if (!how.empty()) options.command.push_back(how);
  return Worker(std::move(options));
}

Request request(const std::string& model) {
  Request result{.model = model};
  result.run.inputs = {{"x", Tensor::scalar(std::int64_t{42})}};
  result.run.outputs = {"y"};
  return result;
}

std::int64_t integer(const Answer& answer, std::size_t output) {
  return answer.outputs.at(output).second.tensor()->data<std::int64_t>()[0];
}

void expect_works(Worker& worker) {
  const Answer answer = worker.run(request("fine"));
  ASSERT_TRUE(answer.done()) << answer.text;
  EXPECT_EQ(answer.outputs.at(0).first, "y");
  EXPECT_EQ(integer(answer, 0), 42);
}

TEST(Worker, SaysWhoItIs) {
  Worker worker = fake();
  EXPECT_EQ(worker.hello().engine, "fake");
  EXPECT_EQ(worker.hello().version, "1.2.3");
}

TEST(Worker, KeepsTheModelWhileItIsTheSame) {
  Worker worker = fake();
  constexpr std::size_t kLevel = 1, kLoads = 2;
  EXPECT_EQ(integer(worker.run(request("a")), kLoads), 1);
  EXPECT_EQ(integer(worker.run(request("a")), kLoads), 1);
  EXPECT_EQ(integer(worker.run(request("b")), kLoads), 2);
  Request optimised = request("b");
  optimised.level = Optimisation::all;
  const Answer answer = worker.run(optimised);
  EXPECT_EQ(integer(answer, kLoads), 3);
  EXPECT_EQ(integer(answer, kLevel), static_cast<std::int64_t>(Optimisation::all));
  EXPECT_EQ(worker.starts(), 1);
}

TEST(Worker, RefusesAndGoesOn) {
  Worker worker = fake();
  for (int time = 0; time < 2; ++time) {
    const Answer answer = worker.run(request("refuse"));
    EXPECT_EQ(answer.outcome, Outcome::refused);
    EXPECT_EQ(answer.stage, Stage::load);
    EXPECT_EQ(answer.text, "this is not a model");
  }
  EXPECT_EQ(worker.run(request("unsupported")).outcome, Outcome::unsupported);
  expect_works(worker);
  EXPECT_EQ(worker.starts(), 1);
}

struct Accident {
  const char* model;
  Outcome outcome;
  Stage stage;
  const char* text;
};

void expect_accident(Worker& worker, const Accident& accident) {
  const Answer answer = worker.run(request(accident.model));
  EXPECT_EQ(answer.outcome, accident.outcome) << accident.model;
  EXPECT_EQ(answer.stage, accident.stage) << accident.model;
  EXPECT_THAT(answer.text, HasSubstr(accident.text));
  EXPECT_TRUE(answer.outputs.empty());
  expect_works(worker);
}

TEST(Worker, SaysWhereItCrashed) {
  Worker worker = fake();
  // Sanitizers turn a signal into an exit code: only the stage is the same everywhere.
  for (const Accident& accident :
       {Accident{"crash on load", Outcome::crashed, Stage::load, "while loading the model"},
        Accident{"crash on run", Outcome::crashed, Stage::run, "the table is on fire"},
        Accident{"crash on read", Outcome::crashed, Stage::read, "while reading the results"},
        Accident{"leave", Outcome::crashed, Stage::run, "ended with code 3"}}) {
    expect_accident(worker, accident);
  }
  EXPECT_EQ(worker.starts(), 5);
}

TEST(Worker, IsStoppedWhenItHangs) {
  Worker worker = fake({.seconds = 0.3});
  expect_accident(worker, {"sleep", Outcome::late, Stage::run, "no answer within 0.3"});
  expect_accident(worker, {"spin", Outcome::late, Stage::run, "no answer within 0.3"});
}

TEST(Worker, IsEndedWhenItComputesTooLong) {
  Worker worker = fake({.cpu_seconds = 0});
  expect_accident(worker, {"spin", Outcome::crashed, Stage::run, "CPU time limit"});
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(Worker, MayNotTakeAllMemory) {
  Worker worker({.command = {FINITY_FAKE_WORKER}, .memory_bytes = std::uint64_t{1} << 28});
  const Answer answer = worker.run(request("swallow"));
  EXPECT_FALSE(answer.done());
  EXPECT_THAT(answer.text, HasSubstr("out of memory"));
  expect_works(worker);
}
#endif

// A killed process whose parent has gone is there until somebody waits for it.
bool has_gone(pid_t pid) {
  for (int i = 0; i < 200; ++i) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(status, text) || text.find(") Z") != std::string::npos) return true;
    ::usleep(10000);
  }
  return false;
}

TEST(Worker, TakesItsOwnChildrenAlong) {
  pid_t child = 0;
  {
    Worker worker = fake();
    const Answer answer = worker.run(request("child"));
    ASSERT_TRUE(answer.done()) << answer.text;
    child = static_cast<pid_t>(integer(answer, 0));
    EXPECT_EQ(::kill(child, 0), 0);
  }
  EXPECT_TRUE(has_gone(child));
}

// The child holds the socket open: that must not look like a worker that takes its time.
TEST(Worker, ThatCrashesTakesItsChildrenAlong) {
  Worker worker = fake({.seconds = 20});
  const auto start = std::chrono::steady_clock::now();
  const Answer answer = worker.run(request("child and crash"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
  EXPECT_EQ(answer.outcome, Outcome::crashed) << answer.text;
  const std::size_t at = answer.text.find("child ");
  ASSERT_NE(at, std::string::npos) << answer.text;
  EXPECT_TRUE(has_gone(std::stoi(answer.text.substr(at + 6))));
  expect_works(worker);
}

TEST(Worker, MayPrint) {
  Worker worker = fake();
  const Answer answer = worker.run(request("noise"));
  EXPECT_TRUE(answer.done()) << answer.text;
}

TEST(Worker, ThatTalksNonsenseIsReplaced) {
  Worker worker = fake();
  expect_accident(worker, {"garbage", Outcome::crashed, Stage::run, "no known kind"});
}

TEST(Worker, IsReplacedNowAndThen) {
  Worker worker = fake({.restart_after = 2});
  for (int i = 0; i < 5; ++i) expect_works(worker);
  EXPECT_EQ(worker.starts(), 3);
}

std::string why_not_started(Worker worker) {
  try {
    worker.hello();
  } catch (const Error& error) {
    return error.what();
  }
  return "started";
}

TEST(Worker, ThatDoesNotStartSaysWhy) {
  EXPECT_THAT(why_not_started(fake({}, "start-failure")), HasSubstr("the library is not there"));
  EXPECT_THAT(why_not_started(fake({}, "start-crash")), HasSubstr("while starting"));
  EXPECT_THAT(why_not_started(Worker({.command = {"/no/such/program"}})), HasSubstr("cannot start /no/such/program"));
}

TEST(Worker, TakesLargeTensors) {
  Worker worker = fake();
  Request large = request("fine");
  Tensor tensor(DType::float32, {1 << 22});
  tensor.mutable_data<float>().back() = 7;
  large.run.inputs = {{"x", tensor}};
  const Answer answer = worker.run(large);
  ASSERT_TRUE(answer.done()) << answer.text;
  EXPECT_TRUE(identical(*answer.outputs.at(0).second.tensor(), tensor));
}

}  // namespace
}  // namespace finity
