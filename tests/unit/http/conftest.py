"""The event loop for tests of this room that use pytest-tornado."""

from tests.unit.http.loop import io_loop

__all__ = ["io_loop"]
