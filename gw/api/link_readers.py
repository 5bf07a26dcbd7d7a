"""Bounds of the files sent at once to clients that show a signed link and no key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from channels.shares import ShareRefused, Shares
from gw.errors import NO_CHANNEL_AVAILABLE, GatewayError

# Bounds of the files sent through a process at once to clients that show a signed link and no key:
# films have two connections and a buffer each, copies and source documents one and an open file.
FILMS_MAX = 200
FILES_MAX = 1000
# A player reads a few parts of a file at once; a link may be anywhere.
LINK_READERS_MAX = 8


class LinkReaders:
    """The files of one kind that are being sent: so many in all, a quarter of them of one account,
    LINK_READERS_MAX of one link."""

    def __init__(self, limit: int) -> None:
        self._accounts = Shares(limit, limit // 4)
        self._links = Shares(limit, LINK_READERS_MAX)

    @contextmanager
    def reading(self, link: str, account_id: str) -> Iterator[None]:
        """Count one reader of a link within this context. Raises GatewayError above a bound."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._accounts.held(account_id))
                stack.enter_context(self._links.held(link))
            except ShareRefused:
                message = "Too many files are read at once, or this one too often. Try again."
                raise GatewayError(NO_CHANNEL_AVAILABLE, message) from None
            yield
