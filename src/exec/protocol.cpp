#include "exec/protocol.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace finity {

static_assert(std::endian::native == std::endian::little, "messages are written as they lie in memory");

namespace {

enum class Form : std::uint8_t { absent, tensor, sequence };
constexpr int kMaxDepth = 8;  // of sequences within sequences

class Writer {
 public:
  explicit Writer(Message kind) { number(kind); }

  template <class T>
  void number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view text) {
    number(static_cast<std::uint64_t>(text.size()));
    text_ += text;
  }
  void tensor(const Tensor& tensor) {
    number(static_cast<std::uint32_t>(tensor.dtype()));
    number(static_cast<std::uint32_t>(tensor.rank()));
    for (const std::int64_t size : tensor.dims()) number(size);
    if (tensor.dtype() == DType::string) {
      for (const std::string& element : tensor.strings()) text(element);
    } else {
      const std::span<const std::byte> bytes = tensor.bytes();
      text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }
  void datum(const Datum& datum) {
    if (const Tensor* elements = datum.tensor()) {
      number(Form::tensor);
      tensor(*elements);
    } else if (const Sequence* items = datum.sequence()) {
      number(Form::sequence);
      number(static_cast<std::uint64_t>(items->size()));
      for (const Datum& item : *items) this->datum(item);
    } else {
      number(Form::absent);
    }
  }
  void data(const NamedData& data) {
    number(static_cast<std::uint64_t>(data.size()));
    for (const auto& [name, value] : data) {
      text(name);
      datum(value);
    }
  }
  void texts(const std::vector<std::string>& texts) {
    number(static_cast<std::uint64_t>(texts.size()));
    for (const std::string& text : texts) this->text(text);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  Reader(std::string_view message, Message kind) : rest_(message) {
    if (kind_of(message) != kind) throw Error("message " + std::to_string(message.front()) + " was not expected");
    rest_.remove_prefix(1);
  }

  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  // Counts of things that take at least a byte each.
  std::uint64_t count() {
    const auto value = number<std::uint64_t>();
    if (value > rest_.size()) throw Error("a message is cut off");
    return value;
  }
  std::string_view text() { return take(count()); }
  template <class E>
  E choice(E last) {
    const auto value = number<E>();
    if (value > last) throw Error("a message holds a value that has no meaning");
    return value;
  }

  Tensor tensor() {
    const auto code = number<std::uint32_t>();
    const auto rank = number<std::uint32_t>();
    if (code == 0 || code >= kDTypeCount || rank > rest_.size()) throw Error("a message holds no tensor");
    Dims dims;
    for (std::uint32_t i = 0; i < rank; ++i) dims.push_back(number<std::int64_t>());
    const auto dtype = static_cast<DType>(code);
    return dtype == DType::string ? strings(std::move(dims)) : numbers(dtype, std::move(dims));
  }
  Datum datum(int depth = 0) {
    const auto form = choice(Form::sequence);
    if (form == Form::absent) return {};
    if (form == Form::tensor) return tensor();
    if (depth == kMaxDepth) throw Error("sequences are nested too deeply");
    Sequence items;
    for (std::uint64_t left = count(); left > 0; --left) items.push_back(datum(depth + 1));
    return Datum::sequence(std::move(items));
  }
  NamedData data() {
    NamedData result;
    for (std::uint64_t left = count(); left > 0; --left) {
      std::string name(text());
      result.emplace_back(std::move(name), datum());
    }
    return result;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> result;
    for (std::uint64_t left = count(); left > 0; --left) result.emplace_back(text());
    return result;
  }
  void end() const {
    if (!rest_.empty()) throw Error("a message is longer than its content");
  }

 private:
  // Nothing is allocated that the message does not hold.
  Tensor numbers(DType dtype, Dims dims) {
    const std::string_view bytes = text();
    const auto count = static_cast<std::uint64_t>(element_count(dims));
    const auto width = static_cast<std::uint64_t>(info(dtype).memory_bytes);
    if (bytes.size() / width != count || bytes.size() % width != 0)
      throw Error("a tensor has not as many bytes as its shape needs");
    Tensor result(dtype, std::move(dims));
    if (!bytes.empty()) std::memcpy(result.mutable_bytes().data(), bytes.data(), bytes.size());
    return result;
  }
  Tensor strings(Dims dims) {
    if (static_cast<std::uint64_t>(element_count(dims)) > rest_.size()) throw Error("a message is cut off");
    Tensor result(DType::string, std::move(dims));
    for (std::string& element : result.mutable_strings()) element = text();
    return result;
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) throw Error("a message is cut off");
    const std::string_view result = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return result;
  }

  std::string_view rest_;
};

}  // namespace

std::string_view name(Stage stage) {
  constexpr std::array<std::string_view, 4> kNames = {"starting", "loading the model", "running",
                                                      "reading the results"};
  return kNames[static_cast<std::size_t>(stage)];
}

std::string_view name(Optimisation level) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "basic", "extended", "all"};
  return kNames[static_cast<std::size_t>(level)];
}

std::string encode(const Hello& hello) {
  Writer out(Message::hello);
  out.number(hello.protocol);
  out.text(hello.engine);
  out.text(hello.version);
  return out.take();
}

std::string encode(const LoadRequest& request) {
  Writer out(Message::load);
  out.number(request.level);
  out.text(request.model);
  return out.take();
}

std::string encode(const RunRequest& request) {
  Writer out(Message::run);
  out.data(request.inputs);
  out.texts(request.outputs);
  return out.take();
}

std::string encode(const GradientRequest& request) {
  Writer out(Message::gradient);
  out.data(request.inputs);
  out.text(request.output);
  out.texts(request.names);
  return out.take();
}

std::string encode(const Gradients& gradients) {
  Writer out(Message::gradients);
  out.datum(gradients.value);
  out.data(gradients.gradients);
  return out.take();
}

std::string encode(Stage stage) {
  Writer out(Message::stage);
  out.number(stage);
  return out.take();
}

std::string encode(const NamedData& results) {
  Writer out(Message::results);
  out.data(results);
  return out.take();
}

std::string encode(const Failure& failure) {
  Writer out(Message::failure);
  out.number(failure.unsupported);
  out.text(failure.text);
  return out.take();
}

std::string encode(const TaskRequest& request) {
  Writer out(Message::task);
  out.text(request.text);
  out.data(request.data);
  return out.take();
}

std::string encode(const TaskResult& result) {
  Writer out(Message::finished);
  out.text(result.text);
  out.data(result.data);
  return out.take();
}

std::string encode_progress(std::string_view text) {
  Writer out(Message::progress);
  out.text(text);
  return out.take();
}

std::string encode_stop() { return Writer(Message::stop).take(); }

std::string encode_loaded() { return Writer(Message::loaded).take(); }

Message kind_of(std::string_view message) {
  if (message.empty()) throw Error("a message is empty");
  const auto kind = static_cast<Message>(message.front());
  if (kind < Message::hello || kind > Message::finished) throw Error("a message is of no known kind");
  return kind;
}

Hello decode_hello(std::string_view message) {
  Reader in(message, Message::hello);
  Hello hello;
  hello.protocol = in.number<std::uint32_t>();
  if (hello.protocol != kProtocolVersion) {
    throw Error("the worker speaks version " + std::to_string(hello.protocol) + " of the protocol, not " +
                std::to_string(kProtocolVersion));
  }
  hello.engine = in.text();
  hello.version = in.text();
  in.end();
  return hello;
}

LoadRequest decode_load(std::string_view message) {
  Reader in(message, Message::load);
  LoadRequest request;
  request.level = in.choice(Optimisation::all);
  request.model = in.text();
  in.end();
  return request;
}

RunRequest decode_run(std::string_view message) {
  Reader in(message, Message::run);
  RunRequest request;
  request.inputs = in.data();
  request.outputs = in.texts();
  in.end();
  return request;
}

GradientRequest decode_gradient(std::string_view message) {
  Reader in(message, Message::gradient);
  GradientRequest request;
  request.inputs = in.data();
  request.output = in.text();
  request.names = in.texts();
  in.end();
  return request;
}

Gradients decode_gradients(std::string_view message) {
  Reader in(message, Message::gradients);
  Gradients gradients;
  gradients.value = in.datum();
  gradients.gradients = in.data();
  in.end();
  return gradients;
}

Stage decode_stage(std::string_view message) {
  Reader in(message, Message::stage);
  const Stage stage = in.choice(Stage::read);
  in.end();
  return stage;
}

NamedData decode_results(std::string_view message) {
  Reader in(message, Message::results);
  NamedData results = in.data();
  in.end();
  return results;
}

Failure decode_failure(std::string_view message) {
  Reader in(message, Message::failure);
  Failure failure;
  failure.unsupported = in.number<std::uint8_t>() != 0;
  failure.text = in.text();
  in.end();
  return failure;
}

TaskRequest decode_task(std::string_view message) {
  Reader in(message, Message::task);
  TaskRequest request;
  request.text = in.text();
  request.data = in.data();
  in.end();
  return request;
}

TaskResult decode_finished(std::string_view message) {
  Reader in(message, Message::finished);
  TaskResult result;
  result.text = in.text();
  result.data = in.data();
  in.end();
  return result;
}

std::string decode_progress(std::string_view message) {
  Reader in(message, Message::progress);
  std::string text(in.text());
  in.end();
  return text;
}

}  // namespace finity
