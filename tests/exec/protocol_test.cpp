// What is sent arrives, and no message that is cut or changed does more than throw.
#include "exec/protocol.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"
#include "tensor/convert.h"

namespace finity {
namespace {

bool same(const Datum& a, const Datum& b) {
  if (a.present() != b.present()) return false;
  if (a.tensor() != nullptr) return b.tensor() != nullptr && identical(*a.tensor(), *b.tensor());
  if (a.sequence() == nullptr) return true;
  return b.sequence() != nullptr &&
         std::equal(a.sequence()->begin(), a.sequence()->end(), b.sequence()->begin(), b.sequence()->end(), same);
}

NamedData of_every_kind() {
  NamedData data;
  for (int code = 1; code < kDTypeCount; ++code) {
    const auto dtype = static_cast<DType>(code);
    if (dtype == DType::string) data.emplace_back("s", Tensor::of_strings({2, 1}, {"", "two\nlines"}));
    else data.emplace_back(std::string(name(dtype)), Tensor(dtype, {2, 3}));
  }
  data.emplace_back("empty", Tensor(DType::float32, {0, 4}));
  data.emplace_back("scalar", Tensor::scalar(1.5F));
  data.emplace_back("absent", Datum());
  data.emplace_back("items", Datum::sequence({Datum::sequence({}), Tensor::scalar(true), Datum()}));
  return data;
}

TEST(Protocol, DataArriveAsTheyWere) {
  const NamedData sent = of_every_kind();
  const NamedData received = decode_results(encode(sent));
  ASSERT_EQ(received.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(received[i].first, sent[i].first);
    EXPECT_TRUE(same(received[i].second, sent[i].second)) << sent[i].first;
  }
}

TEST(Protocol, RequestsArriveAsTheyWere) {
  const LoadRequest load = decode_load(encode(LoadRequest{std::string("\0model", 6), Optimisation::extended}));
  EXPECT_EQ(load.model, std::string("\0model", 6));
  EXPECT_EQ(load.level, Optimisation::extended);
  const RunRequest run = decode_run(encode(RunRequest{of_every_kind(), {"a", "b"}}));
  EXPECT_EQ(run.inputs.size(), of_every_kind().size());
  EXPECT_EQ(run.outputs, (std::vector<std::string>{"a", "b"}));
  const GradientRequest gradient = decode_gradient(encode(GradientRequest{of_every_kind(), "loss", {"w", ""}}));
  EXPECT_EQ(gradient.inputs.size(), of_every_kind().size());
  EXPECT_EQ(gradient.output, "loss");
  EXPECT_EQ(gradient.names, (std::vector<std::string>{"w", ""}));
  const Gradients gradients = decode_gradients(encode(Gradients{Tensor::scalar(1.5F), of_every_kind()}));
  EXPECT_TRUE(same(gradients.value, Tensor::scalar(1.5F)));
  EXPECT_EQ(gradients.gradients.size(), of_every_kind().size());
  EXPECT_EQ(decode_stage(encode(Stage::read)), Stage::read);
  EXPECT_EQ(kind_of(encode_loaded()), Message::loaded);
  const Failure failure = decode_failure(encode(Failure{true, "why"}));
  EXPECT_TRUE(failure.unsupported);
  EXPECT_EQ(failure.text, "why");
  EXPECT_EQ(decode_hello(encode(Hello{.engine = "e", .version = "v"})).version, "v");
}

TEST(Protocol, AnotherVersionIsRefused) {
  EXPECT_THROW(decode_hello(encode(Hello{.protocol = kProtocolVersion + 1})), Error);
}

TEST(Protocol, CutMessagesThrow) {
  const std::string whole = encode(of_every_kind());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(decode_results(whole.substr(0, size)), Error) << size;
  }
  EXPECT_THROW(decode_results(whole + "x"), Error);
  EXPECT_THROW(decode_run(whole), Error);
}

TEST(Protocol, ChangedMessagesThrowOrHoldSomethingElse) {
  const std::string whole = encode(of_every_kind());
  Rng rng(1);
  for (int trial = 0; trial < 20000; ++trial) {
    std::string changed = whole;
    changed[rng.below(changed.size())] = static_cast<char>(rng.below(256));
    try {
      decode_results(changed);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace finity
