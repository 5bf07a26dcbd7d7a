"""The parts of Markdown used by pages: wiki links and the first heading, outside code."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_TICKS = re.compile(r"`+")
_LINK = re.compile(r"\[\[([^\[\]\n]+)\]\]")
# What ends a link's target; in a table a pipe has to be escaped.
_TARGET_END = re.compile(r"\\?\||#")
_HEADING = re.compile(r"# +(.*)")
_CLOSING = re.compile(r"[ \t]+#+[ \t]*$")


def links(body: str) -> list[str]:
    """Return the distinct targets of `[[target]]`, `[[target|label]]` and `[[target#part]]`."""
    found: dict[str, None] = {}
    for block in _blocks(body):
        for match in _LINK.finditer(_without_spans(block)):
            target = _TARGET_END.split(match[1], maxsplit=1)[0].strip()
            if target:
                found[target] = None
    return list(found)


def first_heading(body: str) -> str:
    """Return the text of the first `# ` heading, or an empty one."""
    for block in _blocks(body):
        for line in block.split("\n"):
            match = _HEADING.fullmatch(line.rstrip())
            if match is not None and (title := _CLOSING.sub("", match[1]).strip()):
                return title
    return ""


def _blocks(body: str) -> Iterator[str]:
    """Yield the text between code fences, split at blank lines, which no code span crosses."""
    kept: list[str] = []
    fence = ""
    for line in body.split("\n"):
        match = _FENCE.fullmatch(line)
        if fence:
            is_end = match is not None and match[1].startswith(fence) and not match[2].strip()
            fence = "" if is_end else fence
            continue
        if match is not None and not (match[1][0] == "`" and "`" in match[2]):
            fence = match[1]
        if fence or not line.strip():
            yield "\n".join(kept)
            kept = []
        else:
            kept.append(line)
    yield "\n".join(kept)


def _without_spans(text: str) -> str:
    """Remove code spans: a run of backticks up to the next run of the same length."""
    runs = list(_TICKS.finditer(text))
    if not runs:
        return text
    # The next run of the same length, searched backwards: linear in the number of runs.
    closing: list[int | None] = [None] * len(runs)
    latest: dict[int, int] = {}
    for at in range(len(runs) - 1, -1, -1):
        length = len(runs[at][0])
        closing[at] = latest.get(length)
        latest[length] = at
    kept, position, at = [], 0, 0
    while at < len(runs):
        end = closing[at]
        if end is None:
            at += 1
            continue
        kept.append(text[position : runs[at].start()])
        position, at = runs[end].end(), end + 1
    kept.append(text[position:])
    return " ".join(kept)
