// The one exception type: the current model or command cannot go on. Whoever
// knows more context prepends it on the way up, so the user reads one line such as
//   net.onnx: node 'Conv_3' (Conv): input W has rank 3, expected 4
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace finity {

class Error : public std::exception {
 public:
  explicit Error(std::string text) : text_(std::move(text)) {}

  // Used as `catch (Error& error) { error.in("..."); throw; }`, which keeps the dynamic type.
  void in(std::string_view context) { text_ = std::string(context) + ": " + text_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// The op or feature is not modelled: work that needs it stops, other work goes on.
class Unsupported : public Error {
 public:
  using Error::Error;
};

// Something the user should know although the work could go on.
struct Note {
  std::string where;
  std::string text;
};

}  // namespace finity
