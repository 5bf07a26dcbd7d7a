"""One word for one thing: what the glossary of `.github/CONTRIBUTING.md` retired names nothing."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.files import ROOT, SOURCES, files, name_of, tree

# What a name may not hold any more, and what is said in its place.
RETIRED = {
    "answer": "response of HTTP, reply of an actor or a process, result of a function",
    "mask": "redact: one vocabulary for hiding keys and hosts",
    "patience": "timeout: a length; a deadline is an instant",
    "place": "slot, index, offset, position, path or location: it had meant all of them",
    "said": "what it holds: message, fields, parts",
    "standing": "status of a response, a limit or a row; state of a machine",
    "told": "what it holds: error, members, attributes",
}
_FORMS = {word + ending: word for word in RETIRED for ending in ("", "s", "ed", "ing")}
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def named_in(module: ast.Module) -> Iterator[str]:
    """Yield every name that a module gives: of classes, functions, arguments, variables."""
    for node in ast.walk(module):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def retired_in(name: str) -> set[str]:
    """Return the retired words that a name in either case is made of."""
    return {_FORMS[part] for part in map(str.lower, _PART.findall(name)) if part in _FORMS}


def products() -> Iterator[Path]:
    return files(*SOURCES, suffix=".py")


def test_retired_words_name_nothing() -> None:
    found = {
        f"{name_of(path)}: {name}: say {RETIRED[word]}"
        for path in products()
        for name in {path.stem, *named_in(tree(path))}
        for word in retired_in(name)
    }
    assert not sorted(found)


def test_words_are_found_in_names_of_either_case() -> None:
    assert retired_in("HTTPAnswers") == retired_in("_late_answers") == {"answer"}
    assert retired_in("KEY_MASK") == retired_in("masking") == {"mask"}
    assert not retired_in("placeholder")
    assert not retired_in("replaced")
    code = "class Place:\n    told: int\n    def standing(self, said): self.masks = said"
    assert {word for name in named_in(ast.parse(code)) for word in retired_in(name)} == {
        *{"place", "told", "standing", "said", "mask"}
    }


# Programs report, return and send; data has subjects with names.
SPOKEN = re.compile(
    r"\b(?:told|tells?|telling|said|says?|nobody|somebody|whoever|bur(?:y|ied|ies)|farewell"
    r"|everybody|anybody|whosever|as nearly always|as mostly|for ever|lets? go of|to be had"
    r"|taken for dead|put up with|in good order)\b",
    re.I,
)
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line number and text of every comment and docstring."""
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.body[0].lineno if node.body else 1, ast.get_docstring(node) or ""


def test_comments_and_docstrings_are_plain() -> None:
    spoken = [
        f"{name_of(path)}:{number}: {found[0]}"
        for path in products()
        for number, text in texts_of(path)
        if (found := SPOKEN.search(QUOTED.sub("", text)))
    ]
    assert not spoken


def test_the_glossary_has_every_retired_word() -> None:
    glossary = (
        (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Words")[2]
    )
    rather = " ".join(row.split("|")[3] for row in glossary.splitlines() if row.startswith("|"))
    assert not {word for word in RETIRED if word not in rather}
