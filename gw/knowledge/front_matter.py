"""The front matter of a page: YAML between two lines `---`, read key by key with its lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from gw.config.yaml_source import YAML_TAG

FENCE = "---"
KEYS = ("title", "summary", "tags", "aliases", "confidence", "needs_review", "source")
SOURCE_KEYS = ("file", "filename", "locator", "compiled_at", "model")
# libyaml's if available: ten times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The library composes level by level on the stack of C, which has an end that it does not check.
DEPTH_MAX = 20
_WORDS = {"str": "a text", "bool": "true or false", "seq": "a list", "map": "a mapping"}

Blame = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A page's reference to its source; `path` as written, relative to the page's file."""

    path: str
    line: int
    filename: str | None = None
    locator: str | None = None
    compiled_at: str | None = None
    model: str | None = None


@dataclass(slots=True)
class FrontMatter:
    """The keys of a page that are present."""

    title: str = ""
    summary: str = ""
    tags: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    confidence: str = ""
    needs_review: bool = False
    source: SourceEntry | None = None


def split_head(text: str) -> tuple[str, str, bool]:
    """Split a file into head (with its fences), body and whether the head is closed."""
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        return "", text, True
    for at, line in enumerate(lines[1:], start=1):
        if line.rstrip() == FENCE:
            head = "\n".join(lines[: at + 1])
            has_more = at + 1 < len(lines)
            return head + ("\n" if has_more else ""), "\n".join(lines[at + 1 :]), True
    return text, "", False


def parse_head(head: str, blame: Blame, warn: Blame) -> FrontMatter:
    """Parse the head of a page; faults are passed to `blame` with their line in the file."""
    front = FrontMatter()
    if not head:
        return front
    inner = "\n".join(head.rstrip("\n").split("\n")[1:-1])
    try:
        if _is_too_deep(inner):
            blame(2, f"the front matter has more than {DEPTH_MAX} levels")
            return front
        node = yaml.compose(inner, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 2 + (mark.line if mark is not None else 0)
        blame(line, f"the front matter is no YAML: {error.problem or error.context}")
        return front
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        blame(2, f"the front matter is no YAML: {str(error).splitlines()[0]}")
        return front
    if node is None:
        return front
    if not isinstance(node, yaml.MappingNode):
        blame(_line(node), "the front matter is no mapping of keys to values")
        return front
    for name, value in _entries(node, KEYS, "", blame, warn):
        _take(front, name, value, blame, warn)
    return front


def _is_too_deep(text: str) -> bool:
    """Whether a text has more than DEPTH_MAX levels. Raises like `yaml.compose`."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            return True
    return False


def _take(front: FrontMatter, name: str, node: Any, blame: Blame, warn: Blame) -> None:
    if _kind(node) == "null":
        return
    if name in ("title", "summary"):
        setattr(front, name, _text(node, name, blame) or "")
    elif name in ("tags", "aliases"):
        setattr(front, name, _texts(node, name, blame))
    elif name == "confidence":
        front.confidence = _text(node, name, blame, numbers=True) or ""
    elif name == "needs_review":
        front.needs_review = _flag(node, name, blame)
    else:
        front.source = _source(node, blame, warn)


def _entries(
    node: Any, known: tuple[str, ...], where: str, blame: Blame, warn: Blame
) -> list[tuple[str, Any]]:
    """Return the known keys of a mapping, each once."""
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else None
        if name is None:
            blame(_line(key), "a key is a text")
        elif name in found:
            blame(_line(key), f"the key {where}{name} is there twice")
        elif name not in known:
            warn(_line(key), f"the key {where}{name} is unknown and ignored")
        else:
            found[name] = value
    return list(found.items())


def _text(node: Any, name: str, blame: Blame, *, numbers: bool = False) -> str | None:
    kind = _kind(node)
    if kind == "str" or (numbers and kind in ("int", "float")):
        return _clean(node.value, node, name, blame)
    allowed = "a text or a number" if numbers else "a text"
    blame(_line(node), f"{name} is {allowed}, not {_described(kind)}")
    return None


def _clean(text: str, node: Any, name: str, blame: Blame) -> str:
    if "\0" in text:
        blame(_line(node), f"{name} has a NUL character")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        blame(_line(node), f"{name} has half a character (a lone surrogate)")
    return text.strip()


def _texts(node: Any, name: str, blame: Blame) -> list[str]:
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    found: dict[str, None] = {}
    for item in items:
        kind = _kind(item)
        if kind != "str":
            blame(_line(item), f"{name} is a list of texts, not of {_described(kind)}")
            continue
        text = _clean(item.value, item, name, blame)
        if not text:
            blame(_line(item), f"{name} has an empty entry")
        found[text] = None
    return list(found)


def _flag(node: Any, name: str, blame: Blame) -> bool:
    kind = _kind(node)
    if kind != "bool":
        blame(_line(node), f"{name} is true or false, not {_described(kind)}")
    return kind == "bool" and node.value.lower() in ("true", "yes", "on")


def _source(node: Any, blame: Blame, warn: Blame) -> SourceEntry | None:
    if not isinstance(node, yaml.MappingNode):
        if _kind(node) != "str":
            kind = _described(_kind(node))
            blame(_line(node), f"source is a path or a mapping with `file`, not {kind}")
            return None
        path = _text(node, "source", blame)
        return _with_path(path, SourceEntry(path or "", _line(node)), blame)
    texts: dict[str, str | None] = {}
    line = _line(node)
    for name, value in _entries(node, SOURCE_KEYS, "source.", blame, warn):
        kind = _kind(value)
        if kind == "null":
            continue
        if name == "file":
            line = _line(value)
        # YAML parses an instant to its own type; its text is kept.
        if name == "compiled_at" and kind == "timestamp":
            texts[name] = value.value
        else:
            texts[name] = _text(value, f"source.{name}", blame)
    path = texts.pop("file", None)
    given = {name: text or None for name, text in texts.items()}
    return _with_path(path, SourceEntry(path or "", line, **given), blame)


def _with_path(path: str | None, entry: SourceEntry, blame: Blame) -> SourceEntry | None:
    if not path:
        blame(entry.line, "source names no file")
        return None
    return entry


def _kind(node: Any) -> str:
    return str(node.tag).removeprefix(YAML_TAG)


def _described(kind: str) -> str:
    return _WORDS.get(kind, f"a value of the kind {kind}")


def _line(node: Any) -> int:
    """Return the line in the file: the opening fence is the first."""
    return int(node.start_mark.line) + 2
