"""Large bodies of hostile shapes, on real processes: answered or refused, and the process lives.

The attack of `loadtests/attacks/large_bodies.py` with some of its shapes, at a smaller size.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loadtests.attacks.large_bodies import attack, helper, settings
from tests.support.house import house

pytestmark = pytest.mark.long

SIZE = 3 * 2**20  # more than is read by the loop itself
SHAPES = "^(lists|tiny tools|escapes in a name|a text|answer of tiny calls|a film's (image|items))$"


def test_large_bodies_are_answered_or_refused(empty_url: str, tmp_path: Path) -> None:
    with (
        helper("--upstream") as upstream,
        house(empty_url, tmp_path, **settings(upstream().strip(), SIZE)) as h,
    ):
        tenant = h.tenant()
        told = {
            (found.shape, found.way): found.told for found in attack(h, tenant.key, SHAPES, SIZE)
        }
        del told["silence", ""]
        films = {case: told.pop(case) for case in list(told) if case[1].startswith("a film")}
        assert len(told) == 17
        for case, words in told.items():
            assert re.match("200|400 |502 ", words), (case, words)
        # Texts and images are nobody's trick, however large.
        assert {words for (shape, _), words in told.items() if shape == "a text"} == {"200"}
        # An image may stand in a request for a film.
        taken = {shape for (shape, _), words in films.items() if words == "200"}
        assert taken == {"a film's image"}
        assert {words[:4] for words in films.values()} == {"200", "400 "}
        assert h.client.get("/v1/models").status == 200
