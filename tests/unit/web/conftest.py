"""The event loop for tests of this room that use pytest-tornado, and the two HTTP servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gw.web.fronts import FRONTS
from tests.unit.web.loop import io_loop
from tests.unit.web.wire import FRONT

__all__ = ["io_loop"]


@pytest.fixture(params=sorted(FRONTS))
def front(request: pytest.FixtureRequest) -> Iterator[str]:
    """What `wire.served` serves on: one after the other."""
    token = FRONT.set(request.param)
    yield request.param
    FRONT.reset(token)
