"""Record which functions of the product a process enters, and which functions called them.

A process records from its start where its environment has `GW_WALK`, a path, and a folder of
`PYTHONPATH` has a module `sitecustomize` that consists of the line `SITE`. On SIGUSR2 it writes
what it has recorded since the last signal to `$GW_WALK.<pid>`: a list of caller's file, caller,
callee's file, callee.
"""

import json
import os
import signal
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

VARIABLE = "GW_WALK"
SITE = f"import {__name__}\n"
OURS = tuple(
    str(Path(__file__).parents[2] / room) + os.sep
    for room in ("gw", "actors", "channels", "metrics")
)
# None for code that is not the product's.
_names: dict[CodeType, tuple[str, str] | None] = {}
# The argument of RESUME after a `yield` or an `await`: to go on is no call.
_RESUMED = 3
_entered: set[tuple[str, str, str, str]] = set()


def _name(code: CodeType) -> tuple[str, str] | None:
    if code not in _names:
        ours = code.co_filename.startswith(OURS) and code.co_name != "<module>"
        _names[code] = (code.co_filename, code.co_qualname) if ours else None
    return _names[code]


def _record(frame: FrameType, event: str, _: Any) -> None:
    if event != "call" or (callee := _name(frame.f_code)) is None:
        return
    if frame.f_code.co_code[frame.f_lasti + 1] & _RESUMED:
        return
    above = frame.f_back
    while above is not None and _name(above.f_code) is None:
        above = above.f_back
    caller = above and _name(above.f_code)
    _entered.add((*(caller or ("", "")), *callee))


def _write(*_: Any) -> None:
    target = Path(f"{os.environ[VARIABLE]}.{os.getpid()}")
    beside = target.with_suffix(".new")
    beside.write_text(json.dumps(sorted(_entered)), encoding="utf-8")
    _entered.clear()
    beside.replace(target)


if VARIABLE in os.environ:
    signal.signal(signal.SIGUSR2, _write)
    sys.setprofile(_record)
