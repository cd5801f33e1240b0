// ONNX Runtime's text generation: a search that calls its decoder, a subgraph, once
// for every token. What the decoder may meet is checked as in a loop: the pasts it is
// given are what it gave before, or nothing at the first step.
#include <algorithm>

#include "base/error.h"
#include "ops/control/loops.h"
#include "ops/movement/movement_rules.h"
#include "ops/table/families.h"
#include "ops/table/range_call.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// A decoder's inputs and outputs: (input_ids, position_ids, attention_mask, past...) -> (logits, present...).
constexpr std::size_t kBeforePasts = 3;
constexpr std::size_t kBeforePresents = 1;

std::vector<BodyId> decoders(const Call& call) {
  std::vector<BodyId> result;
  if (call.has_attr("init_decoder")) result.push_back(call.body("init_decoder"));
  result.push_back(call.body("decoder"));
  return result;
}

// What keeps the search from being analysed; empty when nothing does.
std::string_view missing(const Call& call) {
  if (call.integer("model_type") != 0 || call.has_attr("encoder")) {
    return "a search with an encoder is not modelled; check encoder and decoder as models of their own";
  }
  for (const BodyId id : decoders(call)) {
    const Body& body = call.bodies().body(id);
    if (body.inputs.size() < kBeforePasts ||
        body.inputs.size() - kBeforePasts + kBeforePresents != body.outputs.size()) {
      return "the decoder has other inputs than ids, positions, a mask and pasts";
    }
  }
  return {};
}

const Type& type_of(const Call& call, ValueId id) { return call.bodies().value(id).type; }

// The results' sizes depend on what is found; the decoder is typed by what it declares.
void infer_search(InferCall& call) {
  if (!missing(call).empty()) return;
  for (const BodyId id : decoders(call)) {
    std::vector<Type> arguments;
    for (const ValueId input : call.bodies().body(id).inputs) {
      arguments.push_back(type_of(call, input));
      // There are tokens to go on from, but no pasts at first.
      for (Dim& dim : arguments.back().shape) dim.least = arguments.size() <= kBeforePasts ? 1 : 0;
    }
    call.infer_body(id, arguments);
  }
}

// Tokens: those given, padding, and any that the decoder has a score for.
Range tokens(const RangeCall& call, const Body& decoder) {
  const Type& logits = type_of(call, decoder.outputs.front());
  double words = static_cast<double>(call.integer("vocab_size", -1));
  if (!(words > 0) && logits.ranked && !logits.shape.empty() && logits.shape.back().known()) {
    words = static_cast<double>(logits.shape.back().size);
  }
  if (!(words > 0)) words = max_finite(DType::int32);
  Range result = join(call.hull(0).finite(), whole_numbers(0, words - 1));
  for (const std::string_view name : {"pad_token_id", "eos_token_id"}) {
    const std::int64_t id = call.integer(name, 0);
    result = join(result, whole_numbers(static_cast<double>(id), static_cast<double>(id)));
  }
  return result;
}

class Decoding {
 public:
  Decoding(RangeCall& call, BodyId body) : call_(call), id_(body), body_(call.bodies().body(body)) {
    const Range longest = call.has_range(1) ? call.hull(1) : Range{};
    const double most = longest.has_finite() ? std::max(longest.hi, 1.0) : max_finite(DType::int32);
    arguments_.push_back(uniform(input_type(0), tokens(call, body_)));
    arguments_.push_back(uniform(input_type(1), whole_numbers(0, most)));
    arguments_.push_back(uniform(input_type(2), whole_numbers(0, 1)));
    for (std::size_t i = kBeforePasts; i < body_.inputs.size(); ++i) {
      arguments_.push_back(uniform(input_type(i), point(0)));
    }
  }

  // Until the pasts hold all that a step makes of them.
  void settle_pasts(const std::vector<Range>& before) {
    constexpr int kPlain = 3, kMost = 24;
    for (std::size_t i = 0; i < before.size(); ++i) add_past(i, before[i], false);
    for (int round = 0; round < kMost; ++round) {
      const std::vector<AbsTensor> results = call_.probe_body(id_, arguments_);
      bool grew = false;
      for (std::size_t i = 0; i < pasts(); ++i)
        grew |= add_past(i, results[kBeforePresents + i].hull(), round >= kPlain);
      if (!grew) return;
    }
    for (std::size_t i = 0; i < pasts(); ++i) past(i) = top(arguments_[kBeforePasts + i].dtype);
  }
  std::vector<Range> run() {
    std::vector<Range> presents;
    const std::vector<AbsTensor> results = call_.run_body(id_, arguments_);
    for (std::size_t i = 0; i < pasts(); ++i) presents.push_back(results[kBeforePresents + i].hull());
    return presents;
  }

 private:
  const Type& input_type(std::size_t i) const { return type_of(call_, body_.inputs[i]); }
  std::size_t pasts() const { return body_.inputs.size() - kBeforePasts; }
  Range& past(std::size_t i) { return arguments_[kBeforePasts + i].cells.front(); }
  bool add_past(std::size_t i, const Range& more, bool widening) {
    const Range joined = join(past(i), more);
    if (is_subset(joined, past(i))) return false;
    past(i) = widening ? widen(past(i), joined, arguments_[kBeforePasts + i].dtype) : joined;
    return true;
  }

  RangeCall& call_;
  BodyId id_;
  const Body& body_;
  std::vector<AbsTensor> arguments_;
};

void range_search(RangeCall& call) {
  if (const std::string_view reason = missing(call); !reason.empty()) throw Unsupported(std::string(reason));
  const std::vector<BodyId> bodies = decoders(call);
  if (!(call.real("temperature", 1) > 0)) throw Error("temperature " + std::to_string(call.real("temperature", 1)));
  std::vector<Range> pasts;
  for (const BodyId id : bodies) {
    Decoding decoding(call, id);
    decoding.settle_pasts(pasts);
    pasts = decoding.run();
  }
  call.out(0, tokens(call, call.bodies().body(bodies.back())));
  for (std::size_t i = 1; i < call.output_count(); ++i) call.top(i);
}

constexpr std::string_view kFreedom = "scores are not modelled";

const OpDef kOps[] = {
    {.identity =
         {.name = "BeamSearch",
          .domain = kMicrosoft,
          .summary = "the best sequences of tokens that a decoder, called for every token, finds with several beams",
          .signature =
              "(input_ids: int32|float16|bfloat16|float32, max_length: int32, min_length?: int32, num_beams: int32, "
              "num_return_sequences: int32, length_penalty?: T, repetition_penalty?: T, vocab_mask?: int32, "
              "prefix_vocab_mask?: int32, attention_mask?: int32, decoder_input_ids?: int32, "
              "logits_processor?: int32, cross_qk_layer_head?: int32, extra_decoding_ids?: int32, temperature?: T) -> "
              "(sequences: int32, sequences_scores?: T, scores?: T, cross_qk?: T, non_speech_probs?: T) "
              "where T: float",
          .attrs =
              "decoder: graph; encoder: graph; init_decoder: graph; beginning_timestamp_token_id: int; "
              "decoder_output_cross_qk: int; decoder_start_token_id: int; early_stopping: int; eos_token_id: int; "
              "model_type: int = 0; no_repeat_ngram_size: int; no_speech_token_id: int; no_timestamps_token_id: int; "
              "pad_token_id: int; start_of_lm_token_id: int; transcribe_token_id: int; translate_token_id: int; "
              "vocab_size: int"},
     .meaning = {.infer = infer_search, .freedom = kFreedom},
     .analysis = {.range = range_search}},
    {.identity =
         {.name = "GreedySearch",
          .domain = kMicrosoft,
          .summary = "the sequence of tokens that a decoder, called for every token, finds best each time",
          .signature = "(input_ids: int32, max_length: int32, min_length?: int32, repetition_penalty?: T, "
                       "vocab_mask?: int32, prefix_vocab_mask?: int32, attention_mask?: int32) -> (sequences: int32) "
                       "where T: float",
          .attrs =
              "decoder: graph; encoder: graph; init_decoder: graph; decoder_start_token_id: int; eos_token_id: int; "
              "model_type: int = 0; no_repeat_ngram_size: int; pad_token_id: int; vocab_size: int"},
     .meaning = {.infer = infer_search, .freedom = kFreedom},
     .analysis = {.range = range_search}},
    {.identity = {.name = "Sampling",
                  .domain = kMicrosoft,
                  .summary = "a sequence of tokens drawn by the scores of a decoder that is called for every token",
                  .signature =
                      "(input_ids: int32, max_length: int32, min_length?: int32, repetition_penalty?: T, "
                      "vocab_mask?: int32, prefix_vocab_mask?: int32, attention_mask?: int32, presence_mask?: int32, "
                      "seed?: int32) -> (sequences: int32, filtered_logits?: T) where T: float",
                  .attrs =
                      "decoder: graph; encoder: graph; init_decoder: graph; custom: int; decoder_start_token_id: int; "
                      "eos_token_id: int; filter_value: float; min_tokens_to_keep: int; model_type: int = 0; "
                      "no_repeat_ngram_size: int; pad_token_id: int; presence_penalty: float; temperature: float = 1; "
                      "top_p: float; vocab_size: int"},
     .meaning = {.infer = infer_search, .freedom = kFreedom},
     .analysis = {.range = range_search},
     .traits = {.random = true}},
};

}  // namespace

std::span<const OpDef> microsoft_search_ops() { return kOps; }

}  // namespace finity
