#!/usr/bin/env python3
"""Tests tools/check_includes.py and tools/check_files.py on small trees."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.src = pathlib.Path(folder.name) / "src"
        for header in ["base/error.h", "graph/graph.h", "cli/main.h", "formats/all.h"]:
            self.write(header, "#pragma once\n")
        self.write("formats/onnx/wire.h", "#pragma once\n")
        self.write("formats/text/lexer.h", "#pragma once\n")

    def write(self, name, text):
        path = self.src / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run_tool(self, tool, *arguments):
        done = subprocess.run(
            [sys.executable, TOOLS / tool, *arguments], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def expect(self, name, code, *wanted):
        """The file gives exactly these reports, written as 'line: text'."""
        self.write(name, code)
        status, output = self.run_tool("check_includes.py", self.src)
        self.assertEqual(output.splitlines(), [f"src/{name}:{report}" for report in wanted])
        self.assertEqual(status, 1 if wanted else 0)


class Includes(CheckTest):
    def test_left_and_own_layer(self):
        self.expect("graph/a.cpp", '#include "graph/graph.h"\n\n#include <vector>\n\n#include "base/error.h"\n')

    def test_right(self):
        self.expect(
            "base/a.cpp",
            '#include "base/error.h"\n#include "graph/graph.h"\n',
            "2: base/a.cpp includes graph/graph.h, which is to its right",
        )

    def test_formats(self):
        self.expect("formats/onnx/a.cpp", '#include "formats/onnx/wire.h"\n#include "formats/all.h"\n')
        self.expect("formats/all.cpp", '#include "formats/onnx/wire.h"\n#include "formats/text/lexer.h"\n')
        self.expect("cli/main.cpp", '#include "formats/onnx/wire.h"\n')
        self.expect(
            "formats/onnx/b.cpp",
            '#include "formats/text/lexer.h"\n',
            "1: formats/onnx/b.cpp includes formats/text/lexer.h, which belongs to another format",
        )

    def test_header_of_formats(self):
        self.expect(
            "formats/read.h",
            '#include "formats/onnx/wire.h"\n',
            "1: formats/read.h includes formats/onnx/wire.h, but a header of formats/ knows no single format",
        )

    def test_paths_start_at_src(self):
        self.expect(
            "graph/a.cpp",
            '#include "graph.h"\n#include "../base/error.h"\n#include <base/error.h>\n',
            "1: graph/a.cpp includes graph.h, which is not a path from src/",
            "2: graph/a.cpp includes ../base/error.h, which is not a path from src/",
            "3: graph/a.cpp includes <base/error.h>: our own headers go in quotes",
        )

    def test_unknown_layer(self):
        self.write("extra/a.h", "")
        self.expect(
            "cli/a.cpp", '#include "extra/a.h"\n', "1: cli/a.cpp includes extra/a.h, which is in no known layer"
        )

    def test_torch(self):
        self.expect(
            "cli/a.cpp",
            "#include <torch/torch.h>\n# include <ATen/ATen.h>\n",
            "1: cli/a.cpp includes torch/torch.h, which src/ must not see",
            "2: cli/a.cpp includes ATen/ATen.h, which src/ must not see",
        )

    def test_output(self):
        code = 'std::cout << 1;\nstd::printf("x");\nif (x) exit(1);\nstd::fputs("x", stderr);\n'
        self.expect("cli/a.cpp", code)
        self.expect(
            "graph/a.cpp",
            code,
            "1: std::cout is for cli/ only",
            "2: std::printf is for cli/ only",
            "3: exit is for cli/ only",
            "4: std::fputs is for cli/ only",
        )

    def test_output_is_not_seen_where_there_is_none(self):
        self.expect(
            "graph/a.cpp",
            '// std::cout, printf(\n/* exit(\n1) */ auto s = "printf(\\"";\nauto r = R"(exit(1))";\n'
            "std::snprintf(b, 2, s);\nscope.exit();\nscope->exit();\non_exit(3);\nint n = 1'000'000;  // '\n",
        )

    def test_included_in_a_comment(self):
        self.expect("base/a.cpp", '// #include "graph/graph.h"\n/*\n#include "graph/graph.h"\n*/\n')


class Files(CheckTest):
    def check(self, name, text):
        return self.run_tool("check_files.py", self.write(name, text))

    def test_length(self):
        self.assertEqual(self.check("a.cpp", "x\n" * 500), (0, ""))
        status, output = self.check("a.cpp", "x\n" * 501)
        self.assertEqual(status, 1)
        self.assertIn("a.cpp:501: 501 lines", output)
        self.assertEqual(self.check("a.md", "x\n" * 501), (0, ""))

    def test_words(self):
        word = "TO" + "DO"
        status, output = self.check("a.cpp", f"one\n// {word}: two\n")
        self.assertEqual(status, 1)
        self.assertIn(f"a.cpp:2: {word}", output)
        self.assertEqual(self.check("b.cpp", 'mkstemp("aXXXXXX")\n'), (0, ""))


if __name__ == "__main__":
    unittest.main()
