// Many independent jobs on a few threads. The caller's thread waits, shows
// progress on a terminal, and stops waiting when the user presses Ctrl-C.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace finity {

struct PoolOutcome {
  std::vector<bool> finished = {};  // by job
  bool interrupted = false;
};

// Runs job(0) ... job(count - 1); `label` names a job for the progress line. A job must not throw. After an
// interruption threads may still be at work on jobs that are not finished: the process must end without cleaning up.
// Jobs that ask interrupt_wanted() get `grace` seconds to end with what they have.
PoolOutcome run_jobs(std::size_t count, unsigned threads, std::function<void(std::size_t)> job,
                     const std::function<std::string(std::size_t)>& label, double grace = 0);

// The user has pressed Ctrl-C.
bool interrupt_wanted();

}  // namespace finity
