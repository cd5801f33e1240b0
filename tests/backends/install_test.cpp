// Installing a version, with a script in the place of npm: what it leaves counts only when the library runs.
#include "backends/install.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "backends/backends.h"
#include "base/error.h"

namespace finity {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Install : public testing::Test {
 protected:
  Install() {
    char name[] = "/tmp/finity-install-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = ::getenv("PATH");
    const char* cache = ::getenv("XDG_CACHE_HOME");
    if (cache != nullptr) cache_ = cache;
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  ~Install() override {
    ::setenv("PATH", path_.c_str(), 1);
    if (cache_.empty()) ::unsetenv("XDG_CACHE_HOME");
    else ::setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
    fs::remove_all(folder_);
  }

  // The folder to install into is the argument after --prefix.
  void npm(const std::string& does) const {
    const fs::path script = folder_ / "npm";
    std::ofstream(script) << "#!/bin/sh\nwhile [ \"$1\" != --prefix ]; do shift; done\nfolder=$2\n" << does << "\n";
    fs::permissions(script, fs::perms::owner_all);
  }
  std::string reason(const std::string& what) const {
    try {
      install_backend(parse_install(what), [](const std::string&) {});
    } catch (const Error& error) {
      return error.what();
    }
    return "installed";
  }
  // Nothing but the script: no half of an installation.
  bool is_clean() const {
    const fs::path cache = folder_ / "finity";
    return !fs::exists(cache) || fs::is_empty(cache);
  }

  fs::path folder_;
  std::string path_, cache_;
};

TEST_F(Install, NamesAreChecked) {
  EXPECT_THAT(reason("onnxruntime@1.30.0"), HasSubstr("cannot be installed; there are ort@VERSION"));
  EXPECT_THAT(reason("ort"), HasSubstr("which version? Write ort@1.30.0"));
  EXPECT_THAT(reason("tfjs@; rm"), HasSubstr("which version?"));
}

TEST_F(Install, WhatNpmSaysIsPassedOn) {
  npm("echo 'npm error code ETARGET' >&2; echo 'npm error notarget No matching version found.' >&2; exit 1");
  EXPECT_THAT(reason("ort@99.0.0"), HasSubstr("No matching version found."));
  EXPECT_TRUE(is_clean());
}

TEST_F(Install, APackageWithoutALibraryDoesNotCount) {
  npm("mkdir -p $folder/node_modules/onnxruntime-node/bin");
  EXPECT_THAT(reason("ort@1.8.0"), HasSubstr("holds no library for this machine"));
  EXPECT_TRUE(is_clean());
}

TEST_F(Install, ALibraryThatDoesNotRunDoesNotCount) {
  npm("for cpu in x64 arm64; do\n"
      "  mkdir -p $folder/node_modules/onnxruntime-node/bin/napi-v3/linux/$cpu\n"
      "  echo nothing > $folder/node_modules/onnxruntime-node/bin/napi-v3/linux/$cpu/libonnxruntime.so.1\n"
      "done");
  EXPECT_THAT(reason("ort@1.9.9"), HasSubstr("libonnxruntime.so.1"));
  EXPECT_TRUE(is_clean());
}

TEST_F(Install, WhatAKilledInstallationLeftIsRemoved) {
  npm("exit 1");
  fs::create_directories(folder_ / "finity" / ".part-onnxruntime-1.0.0-999999999");
  reason("ort@1.8.0");
  EXPECT_TRUE(is_clean());
  for (const BackendName& name : installed_backends()) EXPECT_TRUE(name.kind->install.empty()) << to_string(name);
}

}  // namespace
}  // namespace finity
