#include "cli/program.h"

#include <cstdio>
#include <string>

#include "cli/commands.h"
#include "cli/failure.h"
#include "exec/torchscript.h"

namespace finity {

namespace {

constexpr int kCannotDoTheJob = 2;

// Names come from files and may hold anything: one line stays one line.
std::string one_line(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') result += "\\n";
    else result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return result;
}

int fail(const std::string& reason) {
  std::fprintf(stderr, "finity: %s\n", one_line(reason).c_str());
  return kCannotDoTheJob;
}

int run(int argc, const char* const* argv) {
  int exit_code = 0;
  set_script_reader(script_in_onnx);
  CLI::App app("finity: keeps neural networks finite", "finity");
  app.set_version_flag("--version", "finity " FINITY_VERSION);
  app.require_subcommand(1);
  add_check(app, exit_code);
  add_trigger(app, exit_code);
  add_replay(app, exit_code);
  add_explain(app, exit_code);
  add_baseline(app, exit_code);
  add_rules(app, exit_code);
  add_inspect(app, exit_code);
  add_run(app, exit_code);
  add_convert(app, exit_code);
  add_fuzz(app, exit_code);
  add_report(app, exit_code);
  add_ops(app, exit_code);
  add_bench(app, exit_code);
  add_backends(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return fail(std::string(error.what()) + " (try finity --help)");
  }
  return exit_code;
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  try {
    const int exit_code = run(argc, argv);
    if (std::fflush(stdout) != 0) return fail("cannot write the output");
    return exit_code;
  } catch (...) {
    return fail(failure_text());
  }
}

}  // namespace finity
