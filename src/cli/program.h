// The whole program but its process: one command line, run.
#pragma once

namespace finity {

// The exit code: 0 clean, 1 findings, 2 could not do the job. Never throws; what went wrong is one line on stderr.
int run_program(int argc, const char* const* argv);

}  // namespace finity
