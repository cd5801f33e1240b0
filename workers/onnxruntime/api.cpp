#include "onnxruntime/api.h"

#include <dlfcn.h>

#include "base/error.h"

namespace finity::ort {

namespace {

constexpr std::uint32_t kApiVersion = 7;  // the table of ONNX Runtime 1.7: all that is needed is in it
constexpr int kNotImplemented = 9;

struct Base {
  const void* (*get_api)(std::uint32_t version);
  const char* (*get_version)();
};

// An op that the library has never heard of, or not for these element types, makes a model invalid.
bool is_unknown_op(const std::string& text) {
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  return says("No Op registered for") || says("is not a registered function/op") ||
         (says("Type Error: Type 'tensor(") && says("is invalid"));
}

}  // namespace

Api::Api(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(::dlerror());
  const auto get_base = reinterpret_cast<const Base* (*)()>(::dlsym(library, "OrtGetApiBase"));
  if (get_base == nullptr) throw Error(path + ": not ONNX Runtime, OrtGetApiBase is missing");
  const Base* base = get_base();
  version_ = base->get_version();
  table_ = static_cast<void* const*>(base->get_api(kApiVersion));
  if (table_ == nullptr) throw Error(path + ": ONNX Runtime " + version_ + " is too old");
}

void Api::fail(Status* status) const {
  const std::string text = call(get_error_message, status);
  const int code = call(get_error_code, status);
  call(release_status, status);
  if (code == kNotImplemented || is_unknown_op(text)) throw Unsupported(text);
  throw Error(text);
}

}  // namespace finity::ort
