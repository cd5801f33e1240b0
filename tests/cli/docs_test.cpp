// The console blocks of README.md and docs/ show what the program really prints. FINITY_UPDATE=1 rewrites them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "base/atomic_file.h"
#include "cli/cli_support.h"
#include "support/paths.h"
#include "support/support.h"

namespace finity {
namespace {

// The arguments of "$ finity ARGUMENTS" or "$ ./finity ARGUMENTS".
std::optional<std::string> arguments_of(const std::string& line) {
  for (const std::string start : {"$ finity ", "$ ./finity "}) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return std::nullopt;
}

// The page with the output of every block's command as the program prints it now.
std::string refreshed(const std::string& page) {
  const std::string open = "```console\n";
  std::string result;
  std::size_t at = 0;
  for (std::size_t block = 0; (block = page.find(open, at)) != std::string::npos;) {
    const std::size_t start = block + open.size();
    const std::size_t line_end = page.find('\n', start);
    const std::size_t end = page.find("```", start);
    const std::string line = page.substr(start, line_end - start);
    const std::optional<std::string> arguments = arguments_of(line);
    EXPECT_TRUE(arguments.has_value()) << line;
    result += page.substr(at, start - at) + line + "\n" + (arguments ? run(*arguments).output : "");
    at = end;
  }
  return result + page.substr(at);
}

TEST(Docs, ConsoleBlocksAreReal) {
  for (const std::string name : {"README.md", "docs/check.md", "docs/float16.md"}) {
    const std::string path = root_folder() + "/" + name;
    const std::string page = read_text_file(path);
    const std::string now = refreshed(page);
    if (std::getenv("FINITY_UPDATE") != nullptr) write_file_atomically(path, now);
    else EXPECT_EQ(now, page) << name;
  }
}

}  // namespace
}  // namespace finity
