#include "exec/worker.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"

namespace finity {

std::string_view name(Answer::Outcome outcome) {
  constexpr std::array<std::string_view, 5> kNames = {"done", "refused", "not implemented", "crashed", "late"};
  return kNames[static_cast<std::size_t>(outcome)];
}

namespace {

std::string in_words(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", seconds);
  return text;
}

}  // namespace

const Hello& Worker::hello() {
  if (process_ == nullptr) start();
  return hello_;
}

void Worker::start() {
  process_ = std::make_unique<Subprocess>(options_.command, options_.memory_bytes);
  process_->allow_cpu_seconds(options_.cpu_seconds);
  ++starts_;
  requests_ = 0;
  has_model_ = false;
  Answer answer;
  std::string message;
  // How long a busy machine takes to load a library says nothing of the requests.
  constexpr double kLeastToStart = 60;
  const auto deadline =
      Subprocess::Clock::now() + std::chrono::duration<double>(std::max(options_.seconds, kLeastToStart));
  if (!receive(message, std::chrono::time_point_cast<Subprocess::Clock::duration>(deadline), answer) ||
      failed(message, answer)) {
    process_.reset();
    throw Error(options_.command.front() + ": " + answer.text);
  }
  hello_ = decode_hello(message);
}

Answer Worker::run(const Request& request) {
  return ask(request.model, request.level, encode(request.run),
             [](const std::string& reply, Answer& answer) { answer.outputs = decode_results(reply); });
}

Answer Worker::gradient(const DerivativeRequest& request) {
  return ask(request.model, Optimisation::none, encode(request.gradient),
             [&](const std::string& reply, Answer& answer) {
               Gradients derived = decode_gradients(reply);
               answer.outputs.emplace_back(request.gradient.output, std::move(derived.value));
               answer.gradients = std::move(derived.gradients);
             });
}

Worker::Deadline Worker::patience() const {
  const auto end = Subprocess::Clock::now() + std::chrono::duration<double>(options_.seconds);
  return std::chrono::time_point_cast<Subprocess::Clock::duration>(end);
}

Answer Worker::task(const LongRequest& request) {
  if (process_ == nullptr) start();
  ++requests_;
  process_->forget_errors();
  constexpr double kSpare = 2;  // several threads, and what comes before and after
  process_->allow_cpu_seconds(options_.cpu_seconds + static_cast<unsigned>(kSpare * request.seconds) + 60);
  Answer answer;
  try {
    if (!load(request.model, Optimisation::none, patience(), answer)) return answer;
    std::string reply;
    bool stopped = false;
    if (!send(encode(request.task), patience(), answer)) return answer;
    while (receive(reply, patience(), answer)) {
      if (failed(reply, answer)) return answer;
      if (kind_of(reply) == Message::stage) {
        answer.stage = decode_stage(reply);
      } else if (kind_of(reply) == Message::progress) {
        const bool go_on = !request.tell || request.tell(decode_progress(reply));
        if (!go_on && !stopped && !send(encode_stop(), patience(), answer)) return answer;
        stopped |= !go_on;
      } else {
        TaskResult result = decode_finished(reply);
        answer.words = std::move(result.text);
        answer.outputs = std::move(result.data);
        return answer;
      }
    }
  } catch (const Error& error) {  // it says something that is not the protocol
    give_up(answer, Answer::Outcome::crashed, error.what());
  }
  return answer;
}

Answer Worker::ask(const std::string& model, Optimisation level, const std::string& message,
                   const std::function<void(const std::string&, Answer&)>& read) {
  if (options_.restart_after > 0 && requests_ >= options_.restart_after) process_.reset();
  if (process_ == nullptr) start();
  ++requests_;
  process_->forget_errors();
  process_->allow_cpu_seconds(options_.cpu_seconds);
  const Deadline deadline = patience();
  Answer answer;
  try {
    if (!load(model, level, deadline, answer)) return answer;
    const std::string reply = exchange(message, deadline, answer);
    if (!reply.empty() && !failed(reply, answer)) read(reply, answer);
  } catch (const Error& error) {  // it says something that is not the protocol
    give_up(answer, Answer::Outcome::crashed, error.what());
  }
  return answer;
}

bool Worker::load(const std::string& model, Optimisation level, Deadline deadline, Answer& answer) {
  if (has_model_ && level_ == level && loaded_ == model) return true;
  has_model_ = false;
  const std::string message = exchange(encode(LoadRequest{model, level}), deadline, answer);
  if (message.empty() || failed(message, answer)) return false;
  if (kind_of(message) != Message::loaded) throw Error("the worker does not say that it has the model");
  loaded_ = model;
  level_ = level;
  has_model_ = true;
  return true;
}

std::string Worker::exchange(const std::string& message, Deadline deadline, Answer& answer) {
  std::string reply;
  if (!send(message, deadline, answer)) return {};
  while (receive(reply, deadline, answer)) {
    if (kind_of(reply) != Message::stage) return reply;
    answer.stage = decode_stage(reply);
  }
  return {};
}

bool Worker::send(const std::string& message, Deadline deadline, Answer& answer) {
  const std::uint64_t size = message.size();
  return moved(process_->send(std::as_bytes(std::span(&size, 1)), deadline), answer) &&
         moved(process_->send(std::as_bytes(std::span(message)), deadline), answer);
}

bool Worker::receive(std::string& message, Deadline deadline, Answer& answer) {
  std::uint64_t size = 0;
  if (!moved(process_->receive(std::as_writable_bytes(std::span(&size, 1)), deadline), answer)) return false;
  if (size > kMaxMessage) throw Error("the worker announces a message of " + std::to_string(size) + " bytes");
  message.resize(size);
  return moved(process_->receive(std::as_writable_bytes(std::span(message)), deadline), answer);
}

bool Worker::moved(Subprocess::Transfer transfer, Answer& answer) {
  if (transfer == Subprocess::Transfer::done) return true;
  if (transfer == Subprocess::Transfer::ended) give_up(answer, Answer::Outcome::crashed, {});
  else give_up(answer, Answer::Outcome::late, "no answer within " + in_words(options_.seconds) + " seconds");
  return false;
}

// The text: what happened, how the process ended, when, and its last words.
void Worker::give_up(Answer& answer, Answer::Outcome outcome, std::string why) {
  const std::string end = process_->end();
  const std::string words = process_->errors();
  answer.outcome = outcome;
  answer.text = (why.empty() ? "the worker " + end : std::move(why)) + " while " + std::string(name(answer.stage));
  if (!words.empty()) answer.text += ": " + words;
  process_.reset();
}

bool Worker::failed(const std::string& message, Answer& answer) const {
  if (kind_of(message) != Message::failure) return false;
  Failure failure = decode_failure(message);
  answer.outcome = failure.unsupported ? Answer::Outcome::unsupported : Answer::Outcome::refused;
  answer.text = std::move(failure.text);
  return true;
}

}  // namespace finity
