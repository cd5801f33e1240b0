"""The small faults that tools/mutate.py puts into range code.

mutants_of(text) lists every mutant of a C++ source. The sources are formatted by
clang-format, so blanks tell a comparison from a template bracket and a product
from a pointer; what is misjudged does not compile and is not counted.
"""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Mutant:
    line: int  # from 1
    operator: str
    before: str  # the whole line
    after: str


# Swapped words and signs; the blanks around an operator are part of it.
SWAPS = [
    ("comparison", [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > ")]),
    ("equality", [(" == ", " != "), (" != ", " == ")]),
    ("sign", [(" + ", " - "), (" - ", " + "), (" += ", " -= "), (" -= ", " += ")]),
    ("factor", [(" * ", " / "), (" / ", " * "), (" *= ", " /= "), (" /= ", " *= ")]),
    ("logic", [(" && ", " || "), (" || ", " && "), (" |= ", " &= "), (" &= ", " |= ")]),
]
WORDS = [
    ("extreme", [("std::min", "std::max"), ("std::max", "std::min"), ("minimum", "maximum"), ("maximum", "minimum")]),
    ("end", [("lo", "hi"), ("hi", "lo"), ("least", "greatest"), ("greatest", "least"), ("pinf", "ninf"), ("ninf", "pinf")]),
    ("lattice", [("join", "meet"), ("meet", "join")]),
    ("rounding", [("next_up", "next_down"), ("next_down", "next_up"), ("floor", "ceil"), ("ceil", "floor")]),
    ("truth", [("true", "false"), ("false", "true")]),
]
# Calls that give their argument back, moved outwards: dropping one leaves the argument (its number from 0).
MOVERS = {"next_up": 1, "next_down": 1, "nextafter": 0, "floor": 0, "ceil": 0, "abs": 0, "round_to": 1}

SKIPPED = re.compile(
    r"^\s*(#|//|namespace\b|using\b|template\b|struct\b|class\b|enum\b|public:|private:|static_assert\b|assert\b|throw\b"
    r"|case\b.*:$|default:$|}|\{)|throw Error"
)
FUNCTION = re.compile(r"^[A-Za-z_].*\(.*[{,]$|^[A-Za-z_].*\) \{.*\}$")
GUARD = re.compile(r"^(\s*)(?:else )?if \(.*\) (?:return\b[^;]*|continue|break);$")
CONDITION = re.compile(r"\bif \(")
STATEMENT = re.compile(r"^\s*[\w.\[\]>()*:-]+ ?(?:[-+*/|&]?= .*|\(.*\));$")
DECLARED = re.compile(r"^\s*(return|const|auto|if|for|while|else|continue|break|static|constexpr|delete|using)\b")
NUMBER = re.compile(r"(?<![\w.])(?<!\de-)(\d+)(?![\w.'])")
QUIET_CALLS = re.compile(r"\.(reserve|shrink_to_fit)\(|EXPECT|ASSERT")


def masked(line):
    """The line with strings, characters and comments blanked, so that positions stay."""

    def blank(found):
        return "\x00" * len(found[0])

    line = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', blank, line)
    return re.sub(r"//.*$", blank, line)


def closing(text, start):
    """Position of the bracket that closes the one at `start`; -1 on another line."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return -1


def arguments(text):
    """Splits at the commas outside brackets."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
    return parts + [text[last:].strip()]


def swapped(line, code):
    for operator, pairs in SWAPS:
        for before, after in pairs:
            for found in re.finditer(re.escape(before), code):
                yield operator, line[: found.start()] + after + line[found.end() :]
    for operator, pairs in WORDS:
        for before, after in pairs:
            for found in re.finditer(rf"(?<![\w]){re.escape(before)}\b", code):
                yield operator, line[: found.start()] + after + line[found.end() :]


def changed_numbers(line, code):
    for found in NUMBER.finditer(code):
        value = int(found[1])
        # Sizes of arrays and template arguments are not arithmetic.
        if code[: found.start()].rstrip().endswith("<") or code[found.end() :].startswith((">", "U>")):
            continue
        # Small numbers count something; larger ones are slack and limits, of which only the absence shows.
        other = {0: 1, 1: 0, 2: 3, 3: 4}.get(value, 0)
        yield "number", line[: found.start()] + str(other) + line[found.end() :]


def dropped_moves(line, code):
    for found in re.finditer(r"(?:std::)?\b(" + "|".join(MOVERS) + r")\(", code):
        if code[: found.start()].endswith(("double ", ".", ">")):
            continue
        end = closing(code, found.end() - 1)
        parts = arguments(line[found.end() : end]) if end > 0 else []
        if len(parts) > MOVERS[found[1]]:
            yield "rounding", line[: found.start()] + parts[MOVERS[found[1]]] + line[end + 1 :]


def changed_conditions(line, code):
    for found in CONDITION.finditer(code):
        end = closing(code, found.end() - 1)
        if end > 0 and ";" not in code[found.end() : end]:
            inner = line[found.end() : end]
            yield "condition", line[: found.end()] + "!(" + inner + ")" + line[end:]


def dropped_statements(line, code):
    guard = GUARD.match(code)
    if guard and " else " not in code.strip()[1:]:
        yield "guard", guard[1] + ";"
    elif STATEMENT.match(code) and not DECLARED.match(code) and not QUIET_CALLS.search(code):
        yield "statement", line[: len(line) - len(line.lstrip())] + ";"


def mutants_of_line(line):
    code = masked(line)
    if not code.strip("\x00 ") or SKIPPED.search(code):
        return
    yield from swapped(line, code)
    yield from changed_numbers(line, code)
    yield from dropped_moves(line, code)
    yield from changed_conditions(line, code)
    yield from dropped_statements(line, code)


def is_complete(previous):
    """The line before ends a statement, so the next one starts one."""
    code = masked(previous).replace("\x00", "").rstrip()
    return not code or code.endswith((";", "{", "}", ":"))


def mutants_of(text, inside=None):
    """All mutants of a source; with `inside` only those in functions whose first line matches it."""
    result, previous, within = [], "", inside is None
    for number, line in enumerate(text.splitlines(), 1):
        if inside is not None and FUNCTION.match(line):
            within = re.search(inside, line) is not None
        if within and not FUNCTION.match(line):
            for operator, after in mutants_of_line(line):
                # A line that goes on from the one before has no statement to drop.
                dropping = operator in ("statement", "guard")
                if after != line and (not dropping or is_complete(previous)):
                    result.append(Mutant(number, operator, line, after))
        if inside is not None and line == "}":
            within = False
        previous = line
    return result
