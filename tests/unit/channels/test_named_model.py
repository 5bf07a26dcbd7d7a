"""The model that a body names which is refused: what its row is found by."""

from __future__ import annotations

from channels.dialects.validate import MODEL_CHARACTERS_MAX, model_in
from tests.support.rows import cases

LONGEST = b"m" * MODEL_CHARACTERS_MAX


@cases(
    "body, named",
    (b'{"n": 11, "model": "picture"}', "picture"),
    (b'{"model": "a", "prompt": 5, "prompt": [{}]}', "a"),
    (b'{"model": "' + LONGEST + b'"}', LONGEST.decode()),
    (b'{"model": "' + LONGEST + b'm"}', None),
    (b'{"model": "a\\u0000b"}', None),
    (b'{"model": "\\ud800"}', None),
    (b'{"model": "\xff"}', None),
    (b'{"model": 5}', None),
    (b'{"model": null}', None),
    (b"{}", None),
    (b'{"model": "a"', None),
    (b"[]", None),
    (b"", None),
    (b'{"model": ' + b"[" * 100_000, None),
)
def test_model_in_a_body_that_is_unfit_otherwise(body: bytes, named: str | None) -> None:
    assert model_in(body) == named
