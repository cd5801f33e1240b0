#include "exec/serve.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>

#include "base/error.h"
#include "exec/whereabouts.h"

namespace finity {

namespace {

// Blocking reads and writes of whole messages.
class Channel {
 public:
  // Takes standard output away from everybody else.
  Channel() : out_(::dup(STDOUT_FILENO)) { ::dup2(STDERR_FILENO, STDOUT_FILENO); }

  // False: finity has gone.
  bool send(const std::string& message) const {
    const std::uint64_t size = message.size();
    return put(reinterpret_cast<const char*>(&size), sizeof size) && put(message.data(), message.size());
  }
  bool receive(std::string& message) const {
    std::uint64_t size = 0;
    if (!get(reinterpret_cast<char*>(&size), sizeof size) || size > kMaxMessage) return false;
    message.resize(size);
    return get(message.data(), message.size());
  }

  // Whether something waits to be read: while a task runs that can only be the word to stop.
  static bool has_word() {
    pollfd waiting = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, 0) > 0;
  }

 private:
  bool put(const char* data, std::size_t size) const {
    while (size > 0) {
      const ssize_t count = ::write(out_, data, size);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      data += count;
      size -= static_cast<std::size_t>(count);
    }
    return true;
  }
  static bool get(char* data, std::size_t size) {
    while (size > 0) {
      const ssize_t count = ::read(STDIN_FILENO, data, size);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      data += count;
      size -= static_cast<std::size_t>(count);
    }
    return true;
  }

  int out_;
};

std::string do_task(Engine& engine, const std::string& message, const Channel& channel) {
  return encode(engine.task(decode_task(message), [&](const std::string& text) {
    return channel.send(encode_progress(text)) && !Channel::has_word();
  }));
}

std::string answer(Engine& engine, const std::string& message, const Channel& channel) {
  const auto tell = [&](Stage stage) { channel.send(encode(stage)); };
  if (kind_of(message) == Message::load) {
    tell(Stage::load);
    const LoadRequest request = decode_load(message);
    engine.load(request.model, request.level);
    return encode_loaded();
  }
  tell(Stage::run);
  if (kind_of(message) == Message::task) return do_task(engine, message, channel);
  if (kind_of(message) == Message::gradient) return encode(engine.gradient(decode_gradient(message), tell));
  return encode(engine.run(decode_run(message), tell));
}

std::string failure_of(const std::exception& error, bool unsupported) {
  return encode(Failure{.unsupported = unsupported, .text = error.what()});
}

}  // namespace

Gradients Engine::gradient(const GradientRequest&, const std::function<void(Stage)>&) {
  throw Unsupported(hello().engine + " computes no derivatives");
}

TaskResult Engine::task(const TaskRequest&, const std::function<bool(const std::string&)>&) {
  throw Unsupported(hello().engine + " does no tasks");
}

int serve(const std::function<std::unique_ptr<Engine>()>& make) {
  const Channel channel;
  std::unique_ptr<Engine> engine;
  try {
    engine = make();
    if (!channel.send(encode(engine->hello()))) return 1;
  } catch (const std::exception& error) {
    channel.send(failure_of(error, false));
    return 1;
  }
  for (std::string message; channel.receive(message);) {
    if (!message.empty() && message.front() == static_cast<char>(Message::stop)) continue;  // the task had ended
    std::string reply;
    try {
      reply = answer(*engine, message, channel);
    } catch (const Unsupported& error) {
      reply = failure_of(error, true);
    } catch (const std::bad_alloc&) {
      const char* place = place_of_work();
      reply =
          encode(Failure{.text = std::string("out of memory") + (place != nullptr ? std::string(" at ") + place : "")});
    } catch (const std::exception& error) {
      reply = failure_of(error, false);
    }
    if (!channel.send(reply)) return 1;
  }
  return 0;
}

}  // namespace finity
