// Names of backends, and that every installed one speaks the protocol: loads, runs, refuses and derives.
#include "backends/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "formats/text/cases.h"

namespace finity {
namespace {

using testing::HasSubstr;
using Outcome = Answer::Outcome;

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(BackendNames, AreReadAndWritten) {
  const std::vector<BackendName> names = parse_backends("torch,ort@1.30.0,torch,,tfjs-wasm@4.22.0");
  ASSERT_EQ(names.size(), 3U);
  EXPECT_EQ(to_string(names[0]), "torch");
  EXPECT_EQ(to_string(names[1]), "ort@1.30.0");
  EXPECT_EQ(names[2].version, "4.22.0");
  EXPECT_TRUE(parse_backends("").empty());
}

TEST(BackendNames, ThatAreWrongSayWhat) {
  EXPECT_THAT(refusal([] { parse_backend("onedn"); }), HasSubstr("did you mean 'onednn'?"));
  EXPECT_THAT(refusal([] { parse_backend("ort@"); }), HasSubstr("a version is written like"));
  EXPECT_THAT(refusal([] { parse_backend("ort@../.."); }), HasSubstr("a version is written like"));
  EXPECT_THAT(refusal([] { open_backend("ort@0.0.1"); }), HasSubstr("finity backends install ort@0.0.1"));
}

TEST(BackendNames, VersionsAreOrderedAsPeopleDo) {
  EXPECT_TRUE(older("1.9.0", "1.10.0"));
  EXPECT_TRUE(older("1.10", "1.10.1"));
  EXPECT_FALSE(older("2.0.0", "2.0.0"));
  EXPECT_FALSE(older("10.0", "9.9"));
}

OpCase model(const std::string& text) { return parse_cases(text, "model").front(); }

Request request_of(const OpCase& test, const std::string& output) {
  Request request{.model = write_onnx(test.graph)};
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    request.run.inputs.emplace_back(test.graph.value(test.graph.main().inputs[i]).name, test.inputs[i]);
  }
  request.run.outputs = {output};
  return request;
}

constexpr const char* kRelu = R"(opset 13
case relu
  h = Relu(float32[1, 3] {1, -2, 3})
  y = Mul(h, h)
  expect float32[1, 3] {1, 0, 9}
)";

void expect_runs(Worker& worker) {
  const OpCase test = model(kRelu);
  for (const Optimisation level : {Optimisation::none, Optimisation::all}) {
    Request request = request_of(test, "y");
    request.level = level;
    for (int time = 0; time < 2; ++time) {
      const Answer answer = worker.run(request);
      ASSERT_TRUE(answer.done()) << answer.text;
      EXPECT_TRUE(identical(*answer.outputs.at(0).second.tensor(), test.expected[0]));
    }
  }
}

void expect_refuses(Worker& worker) {
  Request request = request_of(model(kRelu), "y");
  request.model = "this is not a model";
  EXPECT_TRUE(worker.run(request).outcome == Outcome::refused || worker.run(request).outcome == Outcome::unsupported);
  request = request_of(model(kRelu), "no such output");
  EXPECT_EQ(worker.run(request).outcome, Outcome::refused);
  request = request_of(model(kRelu), "y");
  request.run.inputs.clear();
  EXPECT_NE(worker.run(request).outcome, Outcome::done);
  const OpCase rare = model(
      "opset 15\ncase rare\n  y = BitShift(uint8[1] {1}, uint8[1] {1}) {direction = \"LEFT\"}\n"
      "  expect uint8[1] {2}\n");
  const Answer answer = worker.run(request_of(rare, "y"));
  EXPECT_TRUE(answer.done() || answer.outcome == Outcome::unsupported) << answer.text;
}

// The slope of the sum of x * max(x, 0) is 2 x where x is positive.
void expect_derives(Worker& worker) {
  const OpCase test = model(R"(opset 13
case square
  h = Relu(float32[1, 3] {1, -2, 3})
  m = Mul(h, h)
  y = ReduceSum(m) {keepdims = 0}
  expect float32[] {10}
)");
  const Request request = request_of(test, "y");
  const std::string input = request.run.inputs[0].first;
  const Answer answer = worker.gradient(
      {.model = request.model, .gradient = {.inputs = request.run.inputs, .output = "y", .names = {input}}});
  ASSERT_TRUE(answer.done()) << answer.text;
  EXPECT_EQ(answer.outputs.at(0).second.tensor()->data<float>()[0], 10);
  EXPECT_THAT(answer.gradients.at(0).second.tensor()->data<float>(), testing::ElementsAre(2, 0, 6));
}

// The newest of each kind; of what comes by npm there may be none.
TEST(Backends, SpeakTheProtocol) {
  for (const BackendKind& kind : backend_kinds()) {
    SCOPED_TRACE(kind.name);
    try {
      Backend backend = open_backend(BackendName{.kind = &kind});
      EXPECT_FALSE(backend.worker().hello().version.empty());
      expect_runs(backend.worker());
      expect_refuses(backend.worker());
      if (kind.derives) expect_derives(backend.worker());
      EXPECT_EQ(backend.worker().starts(), 1);
    } catch (const NotInstalled& missing) {
      std::printf("left out: %s\n", missing.what());
    }
  }
}

}  // namespace
}  // namespace finity
