#!/usr/bin/env python3
"""Mutation testing of the range code: breaks it on purpose and counts what the tests notice.

usage: tools/mutate.py [--sample 200] [--seed 1] [--files 'src/domain/*.cpp' ...] [--least 90] [-j 2]

Works on a copy of the tree in a temporary folder, builds the test programs there once, and then for
every mutant compiles the changed file, links the programs anew and runs the tests, fastest first,
until one fails. A mutant that does not compile is not counted; one that runs much too long is killed.
tools/mutants_equivalent.txt lists reviewed mutants that change nothing a user can see.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from mutation_operators import Mutant, mutants_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEEDED = ["CMakeLists.txt", "cmake", "src", "torch", "workers", "tests", "testdata", "examples", "docs", "tools"]
PROGRAMS = ["check_test", "domain_test", "ops_test"]

# Files that are range code as a whole; elsewhere in src/ops only functions that speak of ranges are.
RANGE_FILES = ["src/domain/*.cpp"] + [
    f"src/ops/*/{name}.cpp"
    for name in ["*_range", "range_*", "relations", "*_rules", "row_tables", "hazard", "weight_sums", "score_mask"]
]
RANGE_FUNCTIONS = r"RangeCall|AbsTensor|\bRange\b"
FILES = RANGE_FILES + ["src/ops/*.cpp"]

EVERYWHERE = ["*"]
# Not how cells move (reshape, concat, gather, ...): all values of unary ops, the dearest group, can tell nothing of that.
ELEMENTWISE = [
    f"src/domain/{name}.cpp"
    for name in ["abs_tensor", "arithmetic", "form", "formats", "grid", "lattice", "range", "relation", "simplify"]
] + [
    f"src/ops/*/{name}.cpp"
    for name in ["activation*", "binary_range", "cast*", "relation_rules", "function_range", "hazard", "range_*", "unary"]
]
# What is true: laws, and that what the reference computes lies in its range. What is wanted: verdicts and ranges of cases.
TRUTH, WANTED = "truth", "wanted"
TRIALS = "Text/OpVariants*:Text/MixedOperands*:Text/NoElements*:NoElements*:In/RandomGraphs*:LengthTrials*:SpectralBound*"
OFFICIAL = [f"With/Official*/{setting}" for setting in ("own", "finite16", "all", "bfloat16")]
# In the order in which they run, truths first: kind, program, tests, and the files they are for.
GROUPS = [
    (TRUTH, "domain_test", "-*WideningTerminates", EVERYWHERE),
    (TRUTH, "ops_test", "SampledRanges*:Table/SampledRanges*", EVERYWHERE),
    (TRUTH, "check_test", OFFICIAL[0], EVERYWHERE),
    (TRUTH, "check_test", TRIALS, EVERYWHERE),
    (TRUTH, "ops_test", "-Table/*:SampledRanges*", EVERYWHERE),
    (TRUTH, "ops_test", "Table/RandomCalls*", EVERYWHERE),
    (TRUTH, "check_test", ":".join(OFFICIAL[1:]), EVERYWHERE),
    (TRUTH, "domain_test", "*WideningTerminates", ["src/domain/range.cpp", "src/domain/lattice.cpp"]),
    (TRUTH, "ops_test", "Table/UnaryRanges*", ELEMENTWISE),
    (WANTED, "check_test", f"-With/Official*:Convert.*:{TRIALS}", EVERYWHERE),
]
MEMORY = 8 << 30


@dataclasses.dataclass
class Verdict:
    path: str
    mutant: Mutant
    result: str  # killed | survived | same (the compiler makes the same code of it) | invalid
    by: str = ""  # the first test that failed
    kind: str = ""  # of its group


# ---- the copy ------------------------------------------------------------------


def run(command, **more):
    return subprocess.run(command, check=True, **more)


def copy_and_configure(folder):
    """A copy of the tree, ready to be built; of what is already there only what changed is copied."""
    for name in NEEDED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, copy_function=copy_if_changed)
        else:
            copy_if_changed(source, target)
    run(["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"], stdout=subprocess.DEVNULL)


def copy_if_changed(source, target):
    source, target = pathlib.Path(source), pathlib.Path(target)
    if not target.exists() or source.read_bytes() != target.read_bytes():
        target.write_bytes(source.read_bytes())
        shutil.copymode(source, target)
    return target


class Build:
    """How to compile a file of the copy and to link a program with it."""

    def __init__(self, folder):
        self.folder = folder
        self.build = folder / "build"
        self.compile = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            path = os.path.relpath(entry["file"], folder)
            self.compile.setdefault(path, entry["command"])
        self.link = {}
        for program in PROGRAMS:
            commands = run(["ninja", "-C", self.build, "-t", "commands", program], capture_output=True, text=True)
            self.link[program] = commands.stdout.splitlines()[-1]

    def compile_command(self, path, source, result):
        words = shlex.split(self.compile[path])
        words = words[1:] if os.path.basename(words[0]) == "ccache" else words
        words[words.index("-o") + 1] = str(result)
        words[words.index("-c") + 1] = str(source)
        return [word for word in words if word not in ("-Werror", "-O2")] + ["-O1", "-w"]

    def link_command(self, program, changed, result):
        """An object that comes before the archives takes the place of their member."""
        words = shlex.split(self.link[program].split("&&")[1])
        words[words.index("-o") + 1] = str(result)
        first = next(i for i, word in enumerate(words) if word.endswith(".a"))
        return words[:first] + [str(changed)] + words[first:]


# ---- running -------------------------------------------------------------------


def limits(seconds):
    def apply():
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return apply


def run_tests(program, tests, seconds, place):
    """"" when everything passes, else the first test that does not."""
    command = [program, f"--gtest_filter={tests}", "--gtest_fail_fast", "--gtest_brief=1"]
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, errors="replace", preexec_fn=limits(seconds),
            timeout=30 * seconds, check=False,
        )
    except subprocess.TimeoutExpired:
        return "(hangs)"
    if done.returncode == 0:
        return ""
    failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"(stopped by {done.returncode})"


class Judge:
    def __init__(self, build, groups):
        self.build = build
        self.groups = groups
        self.seconds = {}
        known = build.folder / "seconds.json"  # of an earlier run in a folder that was kept
        if known.exists():
            self.seconds = {tuple(key): value for key, value in json.loads(known.read_text())}
        for _, program, tests, _ in groups:
            self.measure(program, tests)
        known.write_text(json.dumps(list(self.seconds.items())))

    def measure(self, program, tests):
        """How long the tests take, and that they pass as long as nothing is changed."""
        if (program, tests) not in self.seconds:
            began = resource.getrusage(resource.RUSAGE_CHILDREN)
            failed = run_tests(self.build.build / "bin" / program, tests, 600, self.build.build)
            if failed:
                raise SystemExit(f"{program} fails without any mutant: {failed}")
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
            self.seconds[program, tests] = 10 + 6 * used
            print(f"{used:6.1f} s  {program} {tests}", flush=True)

    def judge(self, path, mutant):
        original = (self.build.folder / path).read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(dir=self.build.folder) as place:
            place = pathlib.Path(place)
            changed = self.object_of(path, with_mutant(original, mutant), place / "mutant")
            if not changed:
                return Verdict(path, mutant, "invalid")
            by, kind = self.first_failure(path, changed, place)
            if by:
                return Verdict(path, mutant, "killed", by, kind)
            # Asked only now: few mutants come this far, and each costs one more compilation.
            unchanged = self.object_of(path, original, place / "original")
            same = unchanged and unchanged.read_bytes() == changed.read_bytes()
            return Verdict(path, mutant, "same" if same else "survived")

    def object_of(self, path, text, place):
        """The file of that text compiled, or None."""
        place.mkdir()
        source, result = place / os.path.basename(path), place / "changed.o"
        source.write_text(text, encoding="utf-8")
        command = self.build.compile_command(path, source, result)
        compiled = subprocess.run(command, cwd=self.build.build, capture_output=True, check=False)
        return result if compiled.returncode == 0 else None

    def first_failure(self, path, changed, place):
        """The first test that fails with the changed object, and its kind."""
        linked = {}
        for kind, program, tests, files in self.groups:
            if not matches(path, files):
                continue
            if program not in linked:
                linked[program] = place / program
                run(self.build.link_command(program, changed, linked[program]), cwd=self.build.build)
            failed = run_tests(linked[program], tests, self.seconds[program, tests], place)
            if failed:
                return failed, kind
        return "", ""


def with_mutant(text, mutant):
    lines = text.splitlines()
    lines[mutant.line - 1] = mutant.after
    return "\n".join(lines) + "\n"


# ---- choosing and telling ------------------------------------------------------


def matches(path, patterns):
    return any(fnmatch.fnmatch(path, pattern) for pattern in patterns)


def all_mutants(root, patterns):
    result = []
    for path in sorted((root / "src").rglob("*.cpp")):
        name = path.relative_to(root).as_posix()
        if matches(name, patterns) and matches(name, FILES):
            inside = None if matches(name, RANGE_FILES) else RANGE_FUNCTIONS
            result += [(name, mutant) for mutant in mutants_of(path.read_text(encoding="utf-8"), inside)]
    return result


def read_equivalent(text):
    """{(file, line, changed line)}: blocks of `file`, `- line`, `+ line`, with the reason in between as comments."""
    found, path, before = set(), "", ""
    for line in text.splitlines():
        if line.startswith("- "):
            before = line[2:].strip()
        elif line.startswith("+ "):
            found.add((path, before, line[2:].strip()))
        elif line.strip() and not line.startswith("#"):
            path = line.strip()
    return found


def show(verdict):
    mutant = verdict.mutant
    return f"{verdict.path}:{mutant.line}: {mutant.operator}\n  - {mutant.before.strip()}\n  + {mutant.after.strip()}"


def print_table(verdicts):
    counts = collections.defaultdict(collections.Counter)
    for verdict in verdicts:
        counts[verdict.path][verdict.result] += 1
    print(f"{'file':40} killed survived")
    for path in sorted(counts):
        print(f"{path:40} {counts[path]['killed']:6} {counts[path]['survived']:8}")


def share_killed(verdicts):
    killed = sum(verdict.result == "killed" for verdict in verdicts)
    counted = killed + sum(verdict.result == "survived" for verdict in verdicts)
    return 100 * killed / counted if counted else 0


def shares_by_kind(verdicts):
    """"71.0 % by what is true, 20.5 % more by what is wanted"."""
    counted = sum(verdict.result in ("killed", "survived") for verdict in verdicts)
    by = collections.Counter(verdict.kind for verdict in verdicts if verdict.result == "killed")
    true, wanted = (100 * by[kind] / max(counted, 1) for kind in (TRUTH, WANTED))
    return f"{true:.1f} % by what is true of runs, {wanted:.1f} % more by verdicts and ranges that are wanted"


def record(verdict, seconds, log):
    """A line of JSON: what was found so far is not lost when a long run is stopped."""
    if log:
        with log.open("a", encoding="utf-8") as out:
            out.write(json.dumps({**dataclasses.asdict(verdict), "seconds": round(seconds, 1)}) + "\n")


def judged(judge, chosen, options):
    """Verdicts of the first mutants that count, as many as are wanted or fit into the time."""
    verdicts, lock, rest = [], threading.Lock(), iter(chosen)
    began = time.monotonic()
    wanted, seconds = options.sample or len(chosen), options.minutes * 60 or float("inf")

    def counted():
        return sum(verdict.result in ("killed", "survived") for verdict in verdicts)

    def work():
        while True:
            with lock:
                goes_on = counted() < wanted and time.monotonic() - began < seconds
                one = next(rest, None) if goes_on else None
            if one is None:
                return
            started = time.monotonic()
            verdict = judge.judge(*one)
            with lock:
                if counted() >= wanted:
                    return
                verdicts.append(verdict)
                record(verdict, time.monotonic() - started, options.log)
                if verdict.result == "survived":
                    print(show(verdict), flush=True)
                if counted() % 10 == 0 and verdict.result in ("killed", "survived"):
                    passed = time.monotonic() - began
                    print(f"{counted()} of {wanted}: {share_killed(verdicts):.1f} % killed, {passed:.0f} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(work) for _ in range(options.jobs)]:
            done.result()
    return verdicts


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=200, help="mutants that must be judged (0: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--files", nargs="*", default=FILES, help="patterns of paths from the root")
    parser.add_argument("--least", type=float, default=90, help="per cent that must be killed")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--folder", type=pathlib.Path, help="keep the copy here, for the next run")
    parser.add_argument("--groups", type=int, default=len(GROUPS), help="only the first, fastest groups of tests")
    parser.add_argument("--minutes", type=float, default=0, help="start no mutant after this long (0: no limit)")
    parser.add_argument("--log", type=pathlib.Path, help="append every verdict to this file as a line of JSON")
    parser.add_argument("--list", action="store_true", help="only print the sample")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    everything = all_mutants(ROOT, options.files)
    equivalent = read_equivalent((ROOT / "tools" / "mutants_equivalent.txt").read_text(encoding="utf-8"))
    chosen = [
        (path, mutant) for path, mutant in everything
        if (path, mutant.before.strip(), mutant.after.strip()) not in equivalent
    ]
    print(f"{len(everything)} mutants, {len(everything) - len(chosen)} of them listed as equivalent", flush=True)
    random.Random(options.seed).shuffle(chosen)
    if options.list:
        for path, mutant in chosen[: options.sample or len(chosen)]:
            print(show(Verdict(path, mutant, "")))
        return 0
    with tempfile.TemporaryDirectory(prefix="finity-mutation-") as temporary:
        folder = (options.folder or pathlib.Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        copy_and_configure(folder)
        run(["ninja", "-C", folder / "build", f"-j{options.jobs}", *PROGRAMS], stdout=subprocess.DEVNULL)
        verdicts = judged(Judge(Build(folder), GROUPS[: options.groups]), chosen, options)
    print_table(verdicts)
    results = collections.Counter(verdict.result for verdict in verdicts)
    share = share_killed(verdicts)
    print(f"{share:.1f} % of {results['killed'] + results['survived']} mutants killed ({shares_by_kind(verdicts)})")
    print(f"not counted: {results['invalid']} that do not compile, {results['same']} that the compiler makes the same code of")
    return 0 if share >= options.least else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
