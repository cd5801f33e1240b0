#!/usr/bin/env python3
"""Every target of the Makefile can still be made, as far as can be seen in a minute.

Each target is expanded by `make -n`: the scripts it calls must exist, the presets and build targets it names too. The
builds with other compiler flags than `make test` are configured, and of each the files are compiled on which those flags
have given warnings: whatever includes <regex>, and one of the largest rules.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
import mutate  # noqa: E402
COMPILED = ["src/ops/linear/weight_sums.cpp"]


def output_of(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def phony_targets():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return re.search(r"^\.PHONY:(.*)$", text, re.MULTILINE)[1].split()


def expanded(target):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return output_of("make", "-n", target, env=environment)


def files_with_regex():
    listed = output_of("grep", "-rl", "--include=*.cpp", "#include <regex>", "src", "tests").splitlines()
    return sorted(name for name in listed if not name.startswith("tests/onnx_reference"))


class MakeTargets(unittest.TestCase):
    def test_commands_name_what_exists(self):
        presets = {p["name"] for p in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
        for target in phony_targets():
            with self.subTest(target=target):
                commands = expanded(target)
                for script in re.findall(r"(?<![\w/.-])tools/[\w.-]+", commands):
                    self.assertTrue(os.access(ROOT / script, os.X_OK), script)
                for preset in re.findall(r"tools/configure (\w+)", commands):
                    self.assertIn(preset, presets)

    def configured(self, preset):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        output_of("cmake", "--preset", preset, "-B", folder.name)
        return folder.name

    def compile_sensitive_files(self, build):
        """By the compile commands themselves: asked for an object, Ninja would build all libraries before it."""
        commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text(encoding="utf-8"))
        for source in files_with_regex() + COMPILED:
            found = [entry for entry in commands if entry["file"] == str(ROOT / source)]
            self.assertTrue(found, source)
            output = re.search(r" -o (\S+)", found[0]["command"])[1]
            (pathlib.Path(build) / output).parent.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(found[0]["command"], shell=True, capture_output=True, text=True, check=False, cwd=build)
            self.assertEqual(done.returncode, 0, source + ":\n" + done.stderr[-4000:])

    def test_the_copy_that_mutants_are_made_in(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        copy = pathlib.Path(folder.name)
        mutate.copy_and_configure(copy)
        known = output_of("ninja", "-C", copy / "build", "-t", "targets", "all")
        for program in mutate.PROGRAMS:
            self.assertRegex(known, rf"(?m)^{program}: phony")

    def test_sanitizers(self):
        self.compile_sensitive_files(self.configured("asan"))

    @unittest.skipUnless(shutil.which("clang++"), "clang++ is not installed")
    def test_fuzzers(self):
        build = self.configured("fuzz")
        known = output_of("ninja", "-C", build, "-t", "targets", "all")
        wanted = set(re.findall(r"\bfuzz_\w+", expanded("fuzz")))
        self.assertTrue(wanted)
        for name in wanted:
            self.assertRegex(known, rf"(?m)^{name}: ")
        self.compile_sensitive_files(build)


if __name__ == "__main__":
    unittest.main()
