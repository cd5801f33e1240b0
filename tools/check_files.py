#!/usr/bin/env python3
"""Checks that source files stay short and leave nothing for later.

usage: check_files.py [FILE...]   (default: the files of the checkout)
"""

import pathlib
import re
import subprocess
import sys

MAX_LINES = 500
SOURCES = ("*.cpp", "*.h", "*.py")
OTHERS = ("*.md", "*.cmake", "CMakeLists.txt", "Makefile", "*.yml", "*.sh")
# Written apart, so that this file passes its own check.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")


def problems_of(path):
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if len(lines) > MAX_LINES and any(path.match(pattern) for pattern in SOURCES):
        yield len(lines), f"{len(lines)} lines, at most {MAX_LINES} allowed: split it by what changes together"
    for number, line in enumerate(lines, 1):
        word = UNFINISHED.search(line)
        if word:
            yield number, f"{word[0]}: finish it, or open an issue"


def checkout_files(root):
    listed = subprocess.run(
        [root / "tools" / "list_files", *SOURCES, *OTHERS], check=True, capture_output=True, text=True
    )
    return [root / line for line in listed.stdout.splitlines() if "testdata/" not in line]


def main(arguments):
    root = pathlib.Path(__file__).resolve().parent.parent
    found = 0
    for path in [pathlib.Path(a) for a in arguments] or checkout_files(root):
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        for line, text in problems_of(path):
            print(f"{shown}:{line}: {text}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
