"""A path of the server and what serves it, as far as the server reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from channels.family import ErrorShape


class HttpEndpoint(Protocol):
    """A row of the table of endpoints."""

    @property
    def route(self) -> str:
        """The label in metrics and logs."""

    @property
    def path(self) -> str:
        """A regular expression, whose groups are passed to the method."""

    @property
    def methods(self) -> Sequence[str]:
        """The methods served, in the order of `METHODS`."""

    @property
    def handler(self) -> type[Any]:
        """A subclass of `TornadoHandler`."""

    @property
    def shape(self) -> ErrorShape:
        """The shape of its errors."""

    @property
    def billed(self) -> bool:
        """Whether a POST costs money, and is refused first in an overload."""

    @property
    def body_bytes_max(self) -> int | None:
        """The largest body, where it is less than the configuration's."""
