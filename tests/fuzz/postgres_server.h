// A PostgreSQL server of the test's own, on a socket in a folder of its own. Debian's `postgresql` has the programs;
// where they are missing, tests are skipped.
#pragma once

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace finity::fuzz {

class PostgresServer {
 public:
  PostgresServer() : folder_(std::filesystem::path(testing::TempDir()) / ("finity_pg_" + std::to_string(::getpid()))) {
    namespace fs = std::filesystem;
    std::error_code none;
    for (const fs::directory_entry& version : fs::directory_iterator("/usr/lib/postgresql", none)) {
      if (fs::exists(version.path() / "bin/initdb")) programs_ = version.path() / "bin";
    }
    if (programs_.empty()) return;
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    // It refuses to be run by root.
    if (::geteuid() == 0) {
      const passwd* user = ::getpwnam("postgres");
      if (user == nullptr || ::chown(folder_.c_str(), user->pw_uid, user->pw_gid) != 0) return;
      as_user_ = "setpriv --reuid=postgres --regid=postgres --clear-groups ";
    }
    running_ = call("initdb --no-sync -A trust -U finity -D '" + data() + "'") && start();
  }
  ~PostgresServer() {
    if (running_) stop();
    std::filesystem::remove_all(folder_);
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  bool running() const { return running_; }
  std::string address() const { return "postgresql:///postgres?user=finity&host=" + folder_.string(); }
  bool start() {
    return call("pg_ctl -w -D '" + data() + "' -l '" + (folder_ / "log").string() + "' -o \"-k '" + folder_.string() +
                "' -c listen_addresses='' -c fsync=off\" start");
  }
  bool stop() { return call("pg_ctl -w -m immediate -D '" + data() + "' stop"); }

 private:
  std::string data() const { return (folder_ / "data").string(); }
  bool call(const std::string& command) const {
    const std::string whole = "cd / && " + as_user_ + (programs_ / command).string() + " > /dev/null 2>&1";
    return std::system(whole.c_str()) == 0;
  }

  std::filesystem::path folder_, programs_;
  std::string as_user_;
  bool running_ = false;
};

}  // namespace finity::fuzz
