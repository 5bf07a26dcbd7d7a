"""Sums sampled stacks up by the room of the house that they are in. Pure arithmetic.

A sample belongs to the innermost frame that is the project's own: what a library does costs whoever
called it. Samples without such a frame are the event loop's.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

Stacks = Mapping[tuple[str, ...], int]  # frames from the outermost, and how often they were seen

_FRAME = re.compile(r"^(?P<function>.+) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)$")
_OWN = ("gw", "actors", "channels", "metrics")
LOOP = "event loop (asyncio, uvloop)"
OTHER = "other"

# The first that fits, by the beginning of a file's path inside of the project.
ROOMS: Sequence[tuple[str, str]] = (
    ("gw/__main__.py", LOOP),
    ("gw/cli", LOOP),
    ("gw/run.py", LOOP),
    ("gw/http", "HTTP server"),
    ("gw/api/chat", "chat endpoints"),
    ("gw/api", "API (handlers, key, limits)"),
    ("gw/keys", "API (handlers, key, limits)"),
    ("gw/calls", "calls"),
    ("actors/wallet", "wallet and ledger"),
    ("actors/store", "wallet and ledger"),
    ("actors", "actors (router, channel, limits)"),
    ("channels/http", "wire (upstream client)"),
    ("channels", "protocols and translation"),
    ("metrics", "metrics, traces, logs"),
)
FUNCTIONS = 25
_PYTHONS = ("<string>",)
# A thread that waits for work looks busy from outside.
_WAITING = "_worker (concurrent/futures/thread.py"


def parse_stacks(text: str) -> dict[tuple[str, ...], int]:
    """Read py-spy's raw format: frames between semicolons, then a count."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        if frames and not frames.rpartition(";")[2].startswith(_WAITING):
            stacks[tuple(frames.split(";"))] += int(count)
    return stacks


def room_of(stack: Sequence[str]) -> str:
    """The room of a sample."""
    for frame in reversed(stack):
        path = own_path(frame)
        if path is not None:
            return next((room for start, room in ROOMS if _is_under(path, start)), OTHER)
    return LOOP


def own_path(frame: str) -> str | None:
    """The path of a frame's file inside of the project, None when it is a library's."""
    found = _FRAME.match(frame)
    if found is None or "site-packages" in found["file"]:
        return None
    parts = PurePosixPath(found["file"]).parts
    for place, part in enumerate(parts):
        if part in _OWN and place < len(parts) - 1:
            return "/".join(parts[place:])
    return None


def library_of(frame: str) -> str:
    """Whose code a frame is: ours, a package's, or Python's own."""
    if own_path(frame) is not None:
        return "this project"
    found = _FRAME.match(frame)
    file = found["file"] if found is not None else frame
    _, is_package, rest = file.rpartition("site-packages/")
    # py-spy writes paths of modules without the folder that they were found in.
    if file.startswith("<frozen "):
        return "Python's library"
    top = PurePosixPath(rest if is_package else file).parts[0].removesuffix(".py")
    if is_package or not (top in sys.stdlib_module_names or top in _PYTHONS or file[:1] == "/"):
        return top
    return "Python's library"


def report(title: str, stacks: Stacks) -> str:
    """A readable account of where the samples were."""
    total = sum(stacks.values()) or 1
    rooms: Counter[str] = Counter()
    libraries: Counter[str] = Counter()
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for stack, count in stacks.items():
        rooms[room_of(stack)] += count
        libraries[library_of(stack[-1])] += count
        own[_function(stack[-1])] += count
        for function in {_function(frame) for frame in stack}:
            within[function] += count
    lines = [title, f"{total} samples of the busy process", ""]
    lines += ["Share by room (a library's time counts for the room that calls it)", ""]
    lines += _ranked(rooms, total)
    lines += ["", "Share by whose code runs", "", *_ranked(libraries, total)]
    lines += ["", "Functions by their own time", "", *_ranked(own, total, FUNCTIONS)]
    lines += [
        "",
        "Functions by all that happens within",
        "",
        *_ranked(within, total, FUNCTIONS),
    ]
    return "\n".join(lines) + "\n"


def _ranked(counts: Counter[str], total: int, most: int | None = None) -> list[str]:
    return [f"{count / total:7.1%}  {name}" for name, count in counts.most_common(most)]


def _function(frame: str) -> str:
    found = _FRAME.match(frame)
    if found is None:
        return frame
    path = own_path(frame)
    return f"{found['function']} ({path or library_of(frame)})"


def _is_under(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}/")
