#!/usr/bin/env python3
"""Checks what the files of src/ may see and do.

- A layer includes only itself and layers to its left.
- A format's folder includes only itself and the headers directly in formats/;
  of the files directly in formats/, only sources may name the formats.
- Our own headers are named in quotes by their path from src/.
- The torch headers stay out of src/; only cli/ prints or ends the process.

usage: check_includes.py [SRC]
"""

import pathlib
import re
import sys

LAYERS = ["base", "tensor", "graph", "domain", "ops", "types", "gradient", "formats", "exec", "backends", "check", "trigger", "program", "report", "bench", "store", "fuzz", "muffin", "cli"]
FOREIGN = ("torch/", "ATen/", "c10/")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]*)[">]', re.MULTILINE)
OUTPUT = re.compile(
    r"\bstd::(?:cout|cerr|clog)\b"
    r"|(?<![\w.>])(?:std::)?(?:printf|vprintf|fprintf|vfprintf|puts|putchar|fputs)[ \t]*\("
    r"|(?<![\w.>])(?:std::)?(?:exit|quick_exit|abort)[ \t]*\("
)
# Comments and literals; an apostrophe after a letter or digit separates digits.
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |R"(?P<tag>[^(\s]{0,16})\(.*?\)(?P=tag)"
    |"(?:\\.|[^"\\\n])*"
    |(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL | re.VERBOSE,
)


def blank(text):
    """Spaces of the same extent, so that offsets and line numbers stay."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(code):
    return TOKEN.sub(lambda m: blank(m[0]) if m["comment"] else m[0], code)


def without_literals(code):
    return TOKEN.sub(lambda m: blank(m[0]), code)


def format_folder(path):
    """'onnx' for formats/onnx/reader.h, None for formats/format.h and others."""
    return path.parts[1] if path.parts[0] == "formats" and len(path.parts) > 2 else None


def wrong_direction(source, target):
    """The reason why source must not include target, both relative to src/; None when it may."""
    if target.parts[0] not in LAYERS:
        return "which is in no known layer"
    if source.parts[0] not in LAYERS:
        return f"but {source.parts[0]} is in no known layer"
    if LAYERS.index(target.parts[0]) > LAYERS.index(source.parts[0]):
        return "which is to its right"
    folder = format_folder(target)
    if source.parts[0] != "formats" or folder is None or folder == format_folder(source):
        return None
    if format_folder(source) is not None:
        return "which belongs to another format"
    return None if source.suffix == ".cpp" else "but a header of formats/ knows no single format"


def include_problem(src, source, quote, target):
    if target.startswith(FOREIGN):
        return f"includes {target}, which src/ must not see"
    ours = (src / target).is_file()
    if quote == "<":
        return f"includes <{target}>: our own headers go in quotes" if ours else None
    if not ours or ".." in target.split("/"):
        return f"includes {target}, which is not a path from src/"
    reason = wrong_direction(source, pathlib.PurePosixPath(target))
    return f"includes {target}, {reason}" if reason else None


def problems_of(src, path):
    """(line, text) for each problem of one file."""
    source = pathlib.PurePosixPath(path.relative_to(src).as_posix())
    code = without_comments(path.read_text(encoding="utf-8"))
    for match in INCLUDE.finditer(code):
        problem = include_problem(src, source, match[1], match[2])
        if problem:
            yield code.count("\n", 0, match.start(2)) + 1, f"{source} {problem}"
    if source.parts[0] == "cli":
        return
    code = without_literals(code)
    for match in OUTPUT.finditer(code):
        what = match[0].rstrip("( \t")
        yield code.count("\n", 0, match.start()) + 1, f"{what} is for cli/ only"


def main(arguments):
    root = pathlib.Path(__file__).resolve().parent.parent
    src = pathlib.Path(arguments[0]).resolve() if arguments else root / "src"
    files = sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cpp"))
    if not files:
        print(f"check_includes: no sources in {src}", file=sys.stderr)
        return 2
    found = 0
    for path in files:
        for line, text in problems_of(src, path):
            print(f"src/{path.relative_to(src).as_posix()}:{line}: {text}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
