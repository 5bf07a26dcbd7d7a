"""The bytes of large request bodies that a process holds, shared by all clients."""

from __future__ import annotations

from collections.abc import Callable

# Default bound of the large request bodies of all clients.
BODIES_BYTES = 512 * 1024 * 1024


class BodyBudget:
    """The large request bodies of a process, from their first bytes to their responses.

    An owner (an account, `channels/shares.py`) has at most `each_bytes`, or one body.
    """

    __slots__ = ("_of_owners", "each_bytes", "limit_bytes", "reclaim", "used_bytes")

    def __init__(self, limit_bytes: int, each_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.each_bytes = limit_bytes if each_bytes is None else each_bytes
        self.used_bytes = 0
        self._of_owners: dict[str, int] = {}
        # Gives back at least so many bytes, if it can, of what is kept only while there is room.
        self.reclaim: Callable[[int], None] | None = None

    def take(self, size_bytes: int, owner: str = "", *, held_bytes: int = 0) -> bool:
        """Use so many more bytes if there is room or can be made, and return whether there was.

        `held_bytes` are those that the owner's body has already.
        """
        used = self._of_owners.get(owner, 0)
        if owner and used > held_bytes and used + size_bytes > self.each_bytes:
            return False
        lacking = self.used_bytes + size_bytes - self.limit_bytes
        if lacking > 0 and self.reclaim is not None:
            self.reclaim(lacking)
        if not self.take_spare(size_bytes):
            return False
        if owner:
            self._of_owners[owner] = used + size_bytes
        return True

    def take_spare(self, size_bytes: int) -> bool:
        """Use so many more bytes if there is room, and return whether there was."""
        has_room = self.used_bytes + size_bytes <= self.limit_bytes
        if has_room:
            self.used_bytes += size_bytes
        return has_room

    def give_back(self, size_bytes: int, owner: str = "") -> None:
        """Release so many bytes."""
        self.used_bytes -= size_bytes
        if owner:
            left = self._of_owners.pop(owner, 0) - size_bytes
            if left:
                self._of_owners[owner] = left
