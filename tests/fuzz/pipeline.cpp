#include "fuzz/pipeline.h"

#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "cli/program.h"
#include "formats/model_format.h"
#include "fuzz/targets.h"

namespace finity {

namespace {

constexpr const char* kModel = "model-mutant.bin";
constexpr int kSecondsOfWork = 60;  // of computing, without optimisation and with sanitizers

using Words = std::vector<std::string>;

int told_to = STDERR_FILENO;  // the real standard error
int captured = -1;
std::array<char, 1024> current_command = {};

// Only what may be called in a signal handler.
void tell(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(told_to, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void tell_command() {
  tell("\nwhile running: finity ");
  tell(current_command.data());
  tell("\nthe model is kept as model-mutant.bin\n");
  std::array<char, 4096> said = {};
  const ssize_t count = ::pread(captured, said.data(), said.size(), 0);
  if (count > 0) tell({said.data(), static_cast<std::size_t>(count)});
}

extern "C" void on_death(int signal) {
  tell(signal == SIGVTALRM ? "\nthe command does not end" : "\nthe process was ended by a signal");
  tell_command();
  ::_exit(1);
}

void limit_work(int seconds) {
  const itimerval timer = {.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  ::setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

std::string output_so_far() {
  std::fflush(stdout);
  const off_t size = ::lseek(captured, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::max<off_t>(size, 0)), '\0');
  const ssize_t count = ::pread(captured, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return text;
}

[[noreturn]] void fail(std::string_view why) {
  tell("\n");
  tell(why);
  tell_command();
  ::_exit(1);
}

int run(const Words& words) {
  std::string shown;
  std::vector<const char*> arguments = {"finity"};
  for (const std::string& word : words) {
    shown += word + " ";
    arguments.push_back(word.c_str());
  }
  current_command.fill('\0');
  shown.copy(current_command.data(), current_command.size() - 1);
  (void)::ftruncate(captured, 0);
  ::lseek(captured, 0, SEEK_SET);
  limit_work(kSecondsOfWork);
  const int code = run_program(static_cast<int>(arguments.size()), arguments.data());
  limit_work(0);
  if (code < 0 || code > 2) fail("an exit code that no command has");
  const std::string said = output_so_far();
  if (said.find("internal error") != std::string::npos) fail("an exception that nobody expects");
  if (code == 2 && said.find("finity: ") == std::string::npos) fail("no reason is given");
  if (said.find("verification failed") != std::string::npos) fail("a range does not hold");
  return code;
}

template <std::size_t N>
std::string one_of(const char* const (&choices)[N], Rng& rng) {
  return choices[rng.below(N)];
}

// Options that change the analysis, each in one of four commands.
void add_modes(Words& words, Rng& rng) {
  const auto maybe = [&](const char* option, std::string value) {
    if (rng.below(4) != 0) return;
    words.emplace_back(option);
    if (!value.empty()) words.push_back(std::move(value));
  };
  maybe("--tensor", one_of({"smash", "partition", "expand"}, rng));
  maybe("--numeric", one_of({"interval", "affine"}, rng));
  maybe("--weights", one_of({"trained", "initial", "any"}, rng));
  maybe("--as", one_of({"float16", "bfloat16", "float32", "float64", "float8e4m3fn"}, rng));
  maybe("--range", one_of({"*:[0,1]", "*:[-1e30,1e30]", "*:[-5,5]", "*:[0,0]"}, rng));
  maybe("--flush-subnormals", "");
  maybe("--train", "");
}

Words check_command(Rng& rng) {
  Words words = {"check", kModel, "--no-config", "-j", "1", "--time-limit", "1", "--memory-limit", "100"};
  add_modes(words, rng);
  if (rng.below(2) == 0) words.insert(words.end(), {"--verify", "2"});
  else if (rng.below(4) == 0) words.insert(words.end(), {"--accumulate", "same"});
  else if (rng.below(6) == 0) words.insert(words.end(), {"--confirm", "--engine", "reference"});
  if (rng.below(2) == 0)
    words.insert(words.end(), {"--format", one_of({"text", "json", "sarif", "github", "markdown"}, rng)});
  return words;
}

// A node or value of the model, if it can be read at all.
std::string some_name(Rng& rng) {
  try {
    std::vector<Note> notes;
    const Graph graph = read_model(kModel, notes);
    const auto values = graph.values();
    return values.empty() ? "x" : values[rng.below(values.size())].name;
  } catch (const Error&) {
    return "x";
  }
}

Words other_command(Rng& rng) {
  Words words;
  switch (rng.below(5)) {
    case 0:
      words = {"explain", kModel, "--no-config", "--time-limit", "1"};
      add_modes(words, rng);
      words.insert(words.end(), {"--", some_name(rng)});
      return words;
    case 1: return {"convert", kModel, "-o", rng.below(2) == 0 ? "model-mutant.onnx" : "model-mutant.txt"};
    case 2: return {"inspect", kModel};
    case 3: return {"run", kModel, "--trace", "--time-limit", "1"};
    default: return {"run", kModel, "--seed", std::to_string(rng.below(100)), "--time-limit", "1"};
  }
}

void write_model(const std::string& bytes) {
  std::FILE* file = std::fopen(kModel, "wb");
  if (file == nullptr) fail("cannot write the mutant");
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

}  // namespace

void capture_output() {
  std::fflush(stdout);
  told_to = ::dup(STDERR_FILENO);
  captured = ::memfd_create("output", MFD_CLOEXEC);
  ::dup2(captured, STDOUT_FILENO);
  ::dup2(captured, STDERR_FILENO);
  __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<std::intptr_t>(told_to)));
  __sanitizer_set_death_callback(tell_command);
  for (const int signal : {SIGABRT, SIGVTALRM}) std::signal(signal, on_death);
}

void tell_user(const std::string& text) { tell(text); }

bool run_pipeline(const std::string& model, std::uint64_t seed) {
  Rng rng(seed);
  write_model(model);
  const bool accepted = run(check_command(rng)) != 2;
  run(other_command(rng));
  return accepted;
}

// For libFuzzer: the bytes decide the commands too.
bool fuzz_model(std::span<const std::byte> bytes) {
  static const bool ready = (capture_output(), true);
  std::uint64_t hash = ready ? 14695981039346656037U : 0;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211U;
  return run_pipeline({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, hash);
}

}  // namespace finity
