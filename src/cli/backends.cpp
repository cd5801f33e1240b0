#include "backends/backends.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/install.h"
#include "backends/probe.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"

namespace finity {

namespace {

struct Options {
  std::string name;
  std::string format = "text";
  bool anew = false;
  std::vector<std::string> wanted;
};

// One line on the terminal that is written over again.
void tell_progress(const std::string& who, const std::string& what) {
  if (::isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r\033[K%s: %s", who.c_str(), what.c_str());
}
void end_progress() {
  if (::isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r\033[K");
}

struct Counts {
  int all = 0, partly = 0, none = 0;
};

Counts counts_of(const Support& support) {
  Counts counts;
  for (const auto& [op, of_op] : support) {
    if (of_op.all()) ++counts.all;
    else if (of_op.any()) ++counts.partly;
    else ++counts.none;
  }
  return counts;
}

struct Found {
  std::string name = {};  // with its version
  const BackendKind* kind = nullptr;
  Support support = {};
  std::string trouble = {};  // it is there but does not start
};

Found look_at(const BackendName& name, bool anew) {
  Found found{.name = to_string(name), .kind = name.kind};
  try {
    Backend backend = open_backend(name);
    found.name = backend.name();
    found.support = support_of(
        backend,
        [&](double part) { tell_progress(found.name, "trying ops, " + std::to_string(int(100 * part)) + " %"); }, anew);
  } catch (const Error& error) {
    found.trouble = error.what();
  }
  end_progress();
  return found;
}

std::string abilities(const BackendKind& kind) {
  std::string text = kind.derives ? "forward, backward" : "forward";
  if (kind.levels) text += ", optimised or not";
  return text;
}

void print_found(const Found& found, std::size_t width) {
  const std::string name = padded(found.name, width);
  if (!found.trouble.empty()) {
    std::printf("%s  does not start: %s\n", name.c_str(), found.trouble.c_str());
    return;
  }
  const Counts counts = counts_of(found.support);
  std::printf("%s  %3d ops, %3d in part, %3d not  %s (%s)\n", name.c_str(), counts.all, counts.partly, counts.none,
              std::string(found.kind->library).c_str(), abilities(*found.kind).c_str());
}

std::vector<std::string> missing_kinds(const std::vector<BackendName>& installed) {
  std::vector<std::string> lines;
  for (const BackendKind& kind : backend_kinds()) {
    const auto is_it = [&](const BackendName& name) { return name.kind == &kind; };
    if (std::ranges::any_of(installed, is_it)) continue;
    try {
      open_backend(BackendName{.kind = &kind});
    } catch (const NotInstalled& error) {
      lines.emplace_back(error.what());
    }
  }
  return lines;
}

nlohmann::ordered_json to_json(const Found& found) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::object();
  for (const auto& [op, of_op] : found.support) {
    ops[op] = {
        {"ran", of_op.ran}, {"declined", of_op.declined}, {"refused", of_op.refused}, {"crashed", of_op.crashed}};
  }
  nlohmann::ordered_json json = {{"name", found.name},
                                 {"library", found.kind->library},
                                 {"derives", found.kind->derives},
                                 {"levels", found.kind->levels},
                                 {"ops", ops}};
  if (!found.trouble.empty()) json["trouble"] = found.trouble;
  return json;
}

void list_backends(const Options& options) {
  const std::vector<BackendName> installed = installed_backends();
  std::vector<Found> all;
  for (const BackendName& name : installed) all.push_back(look_at(name, options.anew));
  if (options.format == "json") {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Found& found : all) list.push_back(to_json(found));
    std::printf("%s\n", list.dump(2).c_str());
    return;
  }
  std::size_t width = 0;
  for (const Found& found : all) width = std::max(width, found.name.size());
  for (const Found& found : all) print_found(found, width);
  for (const std::string& line : missing_kinds(installed)) std::printf("%s\n", line.c_str());
  std::printf("finity backends NAME tells which ops; finity backends install ort@1.30.0 fetches a version\n");
}

void print_ops(const char* title, const Support& support, bool (*chosen)(const OpSupport&)) {
  constexpr std::size_t kWidth = 100;
  std::vector<std::string> names;
  for (const auto& [op, of_op] : support) {
    if (chosen(of_op)) names.push_back(op);
  }
  if (names.empty()) return;
  std::printf("%s (%zu):\n", title, names.size());
  std::string line;
  for (const std::string& name : names) {
    if (!line.empty() && line.size() + name.size() + 1 > kWidth) {
      std::printf(" %s\n", line.c_str());
      line.clear();
    }
    line += " " + name;
  }
  std::printf(" %s\n", line.c_str());
}

void show_backend(const Options& options) {
  const Found found = look_at(parse_backend(options.name), options.anew);
  if (!found.trouble.empty()) throw Error(found.trouble);
  if (options.format == "json") {
    std::printf("%s\n", to_json(found).dump(2).c_str());
    return;
  }
  print_found(found, 0);
  print_ops("ops", found.support, [](const OpSupport& op) { return op.all(); });
  print_ops("in part", found.support, [](const OpSupport& op) { return op.any() && !op.all(); });
  print_ops("not supported", found.support, [](const OpSupport& op) { return !op.any() && op.crashed == 0; });
  print_ops("crash or hang", found.support, [](const OpSupport& op) { return op.crashed > 0; });
}

// All that can be had are fetched; the first that cannot is the error.
void install(const Options& options) {
  std::vector<InstallRequest> requests;
  for (const std::string& text : options.wanted) requests.push_back(parse_install(text));
  std::optional<Error> failure;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::string& name = options.wanted[i];
    try {
      const Installed how = install_backend(requests[i], [&](const std::string& what) { tell_progress(name, what); });
      end_progress();
      std::printf("%s %s\n", name.c_str(), how == Installed::now ? "is installed" : "was installed before");
    } catch (Error& error) {
      end_progress();
      error.in(name);
      if (!failure) failure = error;
      else std::fprintf(stderr, "finity: %s\n", error.what());
    }
  }
  if (failure) throw *failure;
}

}  // namespace

void add_backends(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("backends", "List the libraries models can be run in, and what each supports");
  auto options = std::make_shared<Options>();
  command->add_option("name", options->name, "One of them, such as ort@1.30.0: tells its ops");
  command->add_option("--format", options->format, "text or json")->check(CLI::IsMember({"text", "json"}));
  command->add_flag("--anew", options->anew, "Try the ops again instead of reading what was found before");
  CLI::App* more = command->add_subcommand("install", "Fetch versions of libraries by npm into the cache folder");
  more->add_option("versions", options->wanted, "Such as ort@1.20.1 tfjs@3.21.0")->required();
  more->callback([options] { install(*options); });
  command->callback([options, more] {
    if (more->parsed()) return;
    if (options->name.empty()) list_backends(*options);
    else show_backend(*options);
  });
}

}  // namespace finity
