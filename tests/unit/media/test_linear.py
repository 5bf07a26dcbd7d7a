"""What a body or an answer of media costs grows with its size and not faster, in any shape."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from channels.errors import InvalidRequest
from channels.media.dialects import DIALECTS
from channels.media.model import Exchange
from gw.media.reading import fault_of
from tests.support.rows import each
from tests.support.steps import steps_of
from tests.unit.media.asking import MATERIAL, PORTRAIT, READERS, TEXT, written
from tests.unit.media.wire import response

# Of twice as much; what is done once makes it less.
GROWTH_MAX = 2.2
SIZE = 500

BODIES: dict[str, Callable[[int], dict[str, Any]]] = {
    "texts": lambda size: {"content": [TEXT] * size},
    "portraits": lambda size: {"content": [TEXT] + [PORTRAIT] * size},
    "materials": lambda size: {"materials": [MATERIAL] * size},
    "one long text": lambda size: {"content": [{**TEXT, "text": "a, {[" * size}]},
    "long fields": lambda size: dict.fromkeys(("input", "lyrics", "prompt", "name"), "x" * size),
    "brackets": lambda size: {"content": [[]] * size, "bgm": [[]] * size, "x": [[]] * size},
    "a long link": lambda size: {"source_url": "http://" + "a." * size, "url": "1." * size},
    "members of an item": lambda size: {"content": [{f"m{n}": n for n in range(size)} | TEXT]},
}
ANSWERS: dict[str, Callable[[int], Any]] = {
    "lists": lambda size: (
        {
            name: [{"id": n, "name": "x"} for n in range(size)]
            for name in ("templates", "voices", "avatars", "tracks", "segments", "output_files")
        }
        | {"status": "succeeded", "text": "x", "video_url": "https://a.example"}
    ),
    "an envelope": lambda size: {
        "code": "Succeed",
        "data": {"status": "Succeed", "results": [{"id": n} for n in range(size)]},
    },
    "brackets": lambda size: {"status": [[]] * size, "data": [[]] * size},
    "text": lambda size: {"status": "failed", "error": {"message": "https://a " * size}},
}


def grows(work: Callable[[int], object]) -> float:
    work(SIZE)  # what is made once is made
    return steps_of(lambda: work(2 * SIZE)) / steps_of(lambda: work(SIZE))


@each("shape", BODIES)
@each("kind", READERS)
def test_bodies(kind: str, shape: str) -> None:
    bodies = {size: written(kind, **BODIES[shape](size)) for size in (SIZE, 2 * SIZE)}

    def work(size: int) -> None:
        with suppress(InvalidRequest):
            READERS[kind][1](bodies[size])

    assert grows(work) < GROWTH_MAX


@each("shape", ANSWERS)
@each("name", sorted(DIALECTS))
def test_answers(name: str, shape: str) -> None:
    dialect = DIALECTS[name]
    exchanges: list[Exchange[Any] | None] = [
        *(dialect.poll(kind, "t") for kind in ("video", "music", "speech", "avatar")),
        dialect.templates("realMan"),
        dialect.template("t"),
        dialect.preset_avatars(),
        dialect.preset_voices(),
    ]
    answers = {n: response(body=msgspec.json.encode(ANSWERS[shape](n))) for n in (SIZE, 2 * SIZE)}

    def work(size: int) -> None:
        for exchange in exchanges:
            if exchange is not None:
                exchange.read(answers[size])

    assert grows(work) < GROWTH_MAX


def test_links() -> None:
    def work(size: int) -> None:
        for part in ("a.", "1.", "0x1.", "xn--a.", "[", "@", ":", "%", "。", "/"):
            fault_of("http://" + part * size)

    assert grows(work) < GROWTH_MAX
