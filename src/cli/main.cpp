#include <csignal>

#include "cli/program.h"

int main(int argc, char** argv) {
  // A closed pipe (`finity ops | head`) ends the program quietly through the failed write.
  std::signal(SIGPIPE, SIG_DFL);
  return finity::run_program(argc, argv);
}
