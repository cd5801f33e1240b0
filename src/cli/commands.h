// One function per command: it declares the options and what runs when the
// command is chosen. A command prints to standard output and returns its exit
// code through `exit_code`: 0 clean, 1 findings, 2 could not do the job (by Error).
#pragma once

#include <CLI/CLI.hpp>

namespace finity {

void add_check(CLI::App& app, int& exit_code);
void add_trigger(CLI::App& app, int& exit_code);
void add_replay(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_baseline(CLI::App& app, int& exit_code);
void add_rules(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_convert(CLI::App& app, int& exit_code);
void add_fuzz(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_ops(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_bench_debar(CLI::App& bench, int& exit_code);  // a benchmark of it
void add_bench_muffin(CLI::App& bench, int& exit_code);
void add_backends(CLI::App& app, int& exit_code);

}  // namespace finity
