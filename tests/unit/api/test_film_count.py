"""Films that are read through a process at once are bounded."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from gw.api import services
from gw.api.services import FilmCount
from gw.errors import GatewayError


def test_one_film_too_many_is_refused_until_another_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "FILMS_MAX", 2)
    count = FilmCount()
    with count.reading():
        with ExitStack() as others:
            others.enter_context(count.reading())
            with pytest.raises(GatewayError) as refused, count.reading():
                pass
            assert refused.value.http_status == 503
            assert refused.value.headers["Retry-After"]
        with count.reading():
            pass
