#include "torch/errors.h"

#include "base/error.h"
#include "base/memory_error.h"

namespace finity {

namespace {

// LibTorch's own words, without its stack.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

void with_torch_errors(const std::function<void()>& f) {
  try {
    with_memory_errors(f);
  } catch (const c10::NotImplementedError& error) {
    throw Unsupported(first_line(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    const std::string text = first_line(error.what_without_backtrace());
    if (text.find("not implemented") != std::string::npos) throw Unsupported(text);
    throw Error(text);
  }
}

}  // namespace finity
