"""The W3C `tracestate` header, which travels with `traceparent`: what others say of a trace.

Source: W3C Trace Context, section 3.3. The gateway has no entry of its own and changes none.
"""

from __future__ import annotations

import re
from typing import Final

# What is to be propagated at least is what is propagated at most.
CHARACTERS_MAX: Final = 512
MEMBERS_MAX: Final = 32
# Entries longer than this are the first to be left out.
LONG_CHARACTERS: Final = 128

_KEY = r"[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER: Final = re.compile(f"({_KEY})=({_VALUE})", re.ASCII)


def read(header: str) -> str:
    """Return the header to be sent on: the members that are well-formed, each key once.

    Where they are too many or too long, long ones go first, then the last ones. May be empty.
    """
    members: dict[str, str] = {}
    for written in header.split(","):
        member = written.strip(" \t")
        match = _MEMBER.fullmatch(member)
        if match is not None:
            members.setdefault(match[1], member)
        if len(members) == MEMBERS_MAX:
            break
    kept = list(members.values())
    excess = sum(map(len, kept)) + len(kept) - 1 - CHARACTERS_MAX
    for is_long in (True, False):
        for member in reversed(kept.copy()):
            if excess > 0 and (len(member) > LONG_CHARACTERS) == is_long:
                kept.remove(member)
                excess -= len(member) + 1
    return ",".join(kept)
