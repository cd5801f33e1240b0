// Fetches versions of libraries by the name of their npm package into the cache folder. A version is installed when its
// folder is there: everything happens beside it and is moved into place when the library has run a model.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace finity {

// "ort@1.20.1" or "tfjs@3.21.0".
struct InstallRequest {
  std::string install = {};  // "onnxruntime" or "tfjs", as in BackendKind
  std::string version = {};
};
// Throws Error saying what can be installed.
InstallRequest parse_install(std::string_view text);

enum class Installed { now, before };

// `tell` hears what is being done. Throws Error when npm is missing or fails, or when the library does not run; nothing
// is left behind then.
Installed install_backend(const InstallRequest& request, const std::function<void(const std::string&)>& tell);

}  // namespace finity
