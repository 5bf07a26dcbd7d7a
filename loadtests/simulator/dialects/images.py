"""The images wire: one plain answer with so many images; never a stream."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from loadtests.simulator.answers import Answer
from loadtests.simulator.ask import NULL, Ask, Refusal, given, tokens_of
from loadtests.simulator.dialects.base import JSON, Stream, bearer, decode, encode, error_body
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.media.picture import png_base64
from loadtests.simulator.tasks.files import Files, base_of, picture_file

MAX_IMAGES: Final = 10
DEFAULT_SIZE: Final = "1024x1024"
AREA_PER_TOKEN: Final = 256  # pixels
NEVER: Final = 4_000_000_000  # Unix seconds


class _Request(msgspec.Struct):
    model: str
    prompt: str
    n: int | None = None
    size: str | None = None
    response_format: Literal["url", "b64_json"] | None = None
    sim: msgspec.Raw = NULL


_decoder = msgspec.json.Decoder(_Request)


class ImagesDialect:
    """`POST /v1/images/generations`; the directive `events` is the number of images made."""

    name = "images"
    stream_type = JSON
    uses_crlf = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def authenticate(self, exchange: Exchange) -> str:
        return bearer(exchange)

    def read(self, exchange: Exchange) -> Ask:
        request = decode(_decoder, exchange.body)
        count = 1 if request.n is None else request.n
        if not 1 <= count <= MAX_IMAGES:
            raise Refusal(400, f"Invalid 'n': expected 1 to {MAX_IMAGES}, got {count}.")
        size = request.size or DEFAULT_SIZE
        form = request.response_format or "url"
        return Ask(
            model=request.model,
            stream=False,
            text=request.prompt,
            choices=count,
            input_tokens=tokens_of(len(request.prompt)),
            sim=given(request.sim),
            echoed={"size": size, "form": form, "base": base_of(exchange)},
        )

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        asked = ask.echoed or {}
        size = asked["size"]
        count = ask.choices if answer.events is None else answer.events
        data: list[dict[str, Any]] = []
        for number in range(count):
            if asked["form"] == "b64_json":
                data.append({"b64_json": png_base64(answer.image_bytes), "size": size})
            else:
                data.append({"url": self._link(asked["base"], answer, number), "size": size})
        whole: dict[str, Any] = {"model": ask.model, "created": answer.created, "data": data}
        if answer.usage is not None:
            tokens = count * _area(size) // AREA_PER_TOKEN
            whole["usage"] = {
                "generated_images": count,
                "output_tokens": tokens,
                "total_tokens": tokens,
            }
        return encode(whole)

    def _link(self, base: str, answer: Answer, number: int) -> str:
        """The same for the same request, so it does not end."""
        seed = (int(answer.id[-4:], 16) + number) % 10_000
        return self._files.link(base, picture_file(seed), f"{answer.id[:32]}-{number}", NEVER)

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        raise AssertionError("images are never streamed")

    def error(self, status: int, message: str) -> bytes:
        return error_body(status, message)

    def error_frames(self, ask: Ask, answer: Answer, index: int, message: str) -> list[bytes]:
        raise AssertionError("images are never streamed")


def _area(size: str) -> int:
    width, _, height = size.partition("x")
    return int(width) * int(height) if width.isdigit() and height.isdigit() else 0
