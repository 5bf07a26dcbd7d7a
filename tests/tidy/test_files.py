"""Style that can be read off the text of the files."""

import ast
import hashlib
import re

from tests.tidy.files import FOLDERS, ROOT, SOURCES, files, name_of, texts, tree

LINES_MAX = 600
# Of Python below a folder: what a change adds, it takes away elsewhere. They only fall.
FOLDER_LINES_MAX = {"tests": 89_190, "loadtests": 14_264}
COMPLEXITY_MAX = 15
# Statements that the formatter leaves alone: tables of numbers that are read by column.
UNFORMATTED_MAX = 31

# Functions above COMPLEXITY_MAX, and why each is better whole.
WHOLE = {
    "channels/http/sse.py: _feed_lines": "one loop over the lines of every stream: a call a line "
    "is paid by each event",
    "channels/http/connection.py: data_received": "every read of an upstream goes through it",
    "gw/http/connection.py: read_on": "every read of a client's connection goes through its loop",
}

# Written in pieces, so that these lines are not found by themselves.
MARKERS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b")
PLACES = re.compile(r"/(?:ho" + r"me|ro" + r"ot|wo" + r"rk|Us" + r"ers)/\w")
REGISTRIES = re.compile(r"\b(?:py" + r"pi|npm" + r"js|pythonhos" + r"ted)\.(?:org|com)\b")
NAMED = re.compile(r"`(\w[\w/*.-]*\.(?:py|sql))`")
SWALLOWED = re.compile(
    r"^ *except(?: (?:Base)?Exception)?(?: as \w+)?: *(?:#.*)?\n(?: *#.*\n)* *(?:pass|continue)\b",
    re.M,
)
SKIPS = re.compile(r"\bpytest\.(?:mark\.)?(?:importor)?(?:sk" + r"ip|xf" + r"ail)")


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_files_are_one_noun() -> None:
    long = {}
    for path in files(*FOLDERS):
        if path.suffix in {".py", ".sql", ".sh", ".yaml"}:
            count = len(path.read_text(encoding="utf-8").splitlines())
            if count > LINES_MAX:
                long[name_of(path)] = count
    assert not long, f"split these (the limit is {LINES_MAX} lines): {long}"


def test_formatter_lays_out_the_sources() -> None:
    unformatted = lines_with(re.compile(r"# fmt: (?:sk" + r"ip|off)"))
    assert len(unformatted) <= UNFORMATTED_MAX, "\n".join(unformatted)


def test_tests_and_load_tools_only_shrink() -> None:
    lines = {
        folder: sum(
            len(path.read_text(encoding="utf-8").splitlines())
            for path in files(folder, suffix=".py")
        )
        for folder in FOLDER_LINES_MAX
    }
    above = {name: count for name, count in lines.items() if count > FOLDER_LINES_MAX[name]}
    assert not above, f"delete what the new lines replace: the limits are {FOLDER_LINES_MAX}"


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Cyclomatic complexity as radon counts it; functions within count by themselves."""
    count = 1
    nodes: list[ast.AST] = list(function.body)
    while nodes:
        node = nodes.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case ast.If() | ast.IfExp() | ast.Assert():
                count += 1
            case ast.For() | ast.AsyncFor() | ast.While():
                count += 1 + bool(node.orelse)
            case ast.Try():
                count += len(node.handlers) + bool(node.orelse)
            case ast.BoolOp():
                count += len(node.values) - 1
            case ast.comprehension():
                count += 1 + len(node.ifs)
            case ast.Match():
                count += sum(not is_wildcard(case.pattern) for case in node.cases)
        nodes += ast.iter_child_nodes(node)
    return count


def is_wildcard(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def test_functions_are_simple_but_for_those_better_whole() -> None:
    above = {
        f"{name_of(path)}: {node.name}"
        for path in files(*SOURCES, "loadtests", suffix=".py")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and complexity(node) > COMPLEXITY_MAX
    }
    assert not above - WHOLE.keys(), f"split these (the limit is {COMPLEXITY_MAX})"
    assert not WHOLE.keys() - above, "these are simple by now"


def test_complexity_counts_branches_and_conditions() -> None:
    module = ast.parse(
        "def f(a):\n"
        "  if a and b or c:\n"
        "    for x in [y for y in a if y]: pass\n"
        "    else: assert a\n"
        "def g(a):\n"
        "  match a:\n"
        "    case 1: h()\n"
        "    case _:\n"
        "      try: h()\n"
        "      except E: pass\n"
    )
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    assert [complexity(function) for function in functions] == [9, 3]


def test_nothing_is_left_to_do() -> None:
    assert not lines_with(MARKERS)


def test_no_place_of_one_machine_is_written_down() -> None:
    assert not lines_with(PLACES)
    assert not lines_with(REGISTRIES)


def test_no_test_is_passed_over() -> None:
    assert not lines_with(SKIPS)


def test_files_named_in_comments_are_there() -> None:
    """From the top of the project, or from any folder above the file that names them."""
    gone = [
        f"{name_of(path)}: {named}"
        for path in files(*FOLDERS, suffix=".py")
        for named in NAMED.findall(path.read_text(encoding="utf-8"))
        if not any(next(folder.glob(named), None) for folder in path.parents)
    ]
    assert not gone


def test_tables_and_migrations_are_the_bytes_that_landed() -> None:
    """A database keeps each file's digest, and one letter of a comment would lock it out."""
    landed = (ROOT / "tests/tidy/migrations.sha256").read_text(encoding="utf-8").splitlines()
    folder = ROOT / "actors/store"
    now = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}"
        for path in sorted([*folder.glob("tables/*.sql"), *folder.glob("migrations/*.sql")])
    ]
    assert now == landed, "put the file back; a new one's line is `sha256sum FILE`"


def test_modules_say_what_they_are_for() -> None:
    silent = [
        name_of(path)
        for path in files(*SOURCES, "loadtests", suffix=".py")
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(tree(path))
    ]
    assert not silent


def test_no_error_is_swallowed_whole() -> None:
    swallowed = [
        f"{name_of(path)}: {found[0]!r}"
        for path in files(*FOLDERS, suffix=".py")
        for found in SWALLOWED.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not swallowed
