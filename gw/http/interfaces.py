"""What a handler needs of its connection beyond Tornado's interface."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping
from typing import Protocol


class ServerConnection(Protocol):
    """What a handler needs of its connection beyond Tornado's interface."""

    # Answers where the body cannot be read on, unless there was an answer already.
    refuse_body: Callable[[str], None] | None

    @property
    def is_closed(self) -> bool: ...

    def set_max_body_size(self, max_body_size: int) -> None: ...

    def set_close_callback(self, callback: Callable[[], None] | None) -> None: ...

    def begin_answer(
        self, status: int, reason: str, headers: Mapping[str, str], chunk: bytes
    ) -> Future[None]:
        """Send the head of an answer, whose header names are well spelled, and some of its body."""

    def write(self, chunk: bytes) -> Future[None]: ...

    def finish(self) -> None: ...

    def finish_with(self, chunk: bytes) -> Future[None]:
        """Send the last of an answer that has begun."""

    def close(self) -> None: ...
