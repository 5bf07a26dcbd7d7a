"""Style that can be read off the text of the files."""

import hashlib
import re

from tests.tidy.files import FOLDERS, ROOT, SOURCES, files, name_of, texts

# Written in pieces, so that these lines are not found by themselves.
MARKERS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b")
PLACES = re.compile(r"/(?:ho" + r"me|ro" + r"ot|wo" + r"rk|Us" + r"ers)/\w")
REGISTRIES = re.compile(r"\b(?:py" + r"pi|npm" + r"js|pythonhos" + r"ted)\.(?:org|com)\b")
NAMED = re.compile(r"`(\w[\w/*.-]*\.(?:py|sql))`")
SWALLOWED = re.compile(
    r"^ *except(?: (?:Base)?Exception)?(?: as \w+)?: *(?:#.*)?\n(?: *#.*\n)* *(?:pass|continue)\b",
    re.M,
)
DOCSTRING = ('"""', 'r"""')
SKIPS = re.compile(r"\bpytest\.(?:mark\.)?(?:importor)?(?:sk" + r"ip|xf" + r"ail)")


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


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
        if (text := path.read_text(encoding="utf-8").strip()) and not text.startswith(DOCSTRING)
    ]
    assert not silent


def test_no_error_is_swallowed_whole() -> None:
    swallowed = [
        f"{name_of(path)}: {found[0]!r}"
        for path in files(*FOLDERS, suffix=".py")
        for found in SWALLOWED.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not swallowed
