"""Errors of which the client was told: nobody needs the frames that they came through any more."""

from __future__ import annotations


def forget_frames(error: BaseException) -> None:
    """Drop the frames of an error, and of those that it came of.

    A frame that holds the error it raised, as the one that ends a call does, is a cycle with it:
    the request and its body would stay until the next collection of old objects, which may be
    hours away while their bytes are free in the budget of bodies (`gw/runtime/memory.py`).
    """
    waiting: list[BaseException | None] = [error]
    known: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in known:
            known.add(id(one))
            one.__traceback__ = None
            waiting += [one.__cause__, one.__context__]
