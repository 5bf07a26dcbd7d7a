"""Wires whose answers are never streams: images, transcriptions, ranked documents, moderation."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from tornado.httputil import HTTPFile, HTTPHeaders, parse_body_arguments

from loadtests.simulator.ask import Ask, Refusal, decoder_of, given, shape, tokens_of
from loadtests.simulator.completions import Completion
from loadtests.simulator.dialects.base import Dialect, decode, encode
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.files import File, Files, base_of, png_base64

MAX_IMAGES: Final = 10
DEFAULT_SIZE: Final = "1024x1024"
AREA_PER_TOKEN: Final = 256  # pixels
NEVER: Final = 4_000_000_000  # Unix seconds


_images = decoder_of(
    shape(
        model=str,
        prompt=str,
        n=int | None,
        size=str | None,
        response_format=Literal["url", "b64_json"] | None,
        sim=msgspec.Raw,
    )
)
_reranks = decoder_of(
    shape(
        model=str,
        query=str,
        documents=list[str | dict[str, Any]],
        top_n=int | None,
        sim=msgspec.Raw,
    )
)
_moderations = decoder_of(shape(model=str, input=str | list[str | dict[str, Any]], sim=msgspec.Raw))


class ImagesDialect(Dialect):
    """`POST /v1/images/generations`; the directive `events` is the number of images made."""

    name = "images"

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self, exchange: Exchange) -> Ask:
        request = decode(_images, exchange.body)
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

    def plain(self, ask: Ask, response: Completion) -> bytes:
        requested = ask.echoed or {}
        size = requested["size"]
        count = ask.choices if response.events is None else response.events
        data: list[dict[str, Any]] = []
        for number in range(count):
            if requested["form"] == "b64_json":
                data.append({"b64_json": png_base64(response.image_bytes), "size": size})
            else:
                data.append({"url": self._link(requested["base"], response, number), "size": size})
        whole: dict[str, Any] = {"model": ask.model, "created": response.created, "data": data}
        if response.usage is not None:
            tokens = count * _area(size) // AREA_PER_TOKEN
            whole["usage"] = {
                "generated_images": count,
                "output_tokens": tokens,
                "total_tokens": tokens,
            }
        return encode(whole)

    def _link(self, base: str, response: Completion, number: int) -> str:
        """The same for the same request, so it does not end."""
        return self._files.link(base, File("png"), f"{response.id[:32]}-{number}", NEVER)


def _area(size: str) -> int:
    width, _, height = size.partition("x")
    return int(width) * int(height) if width.isdigit() and height.isdigit() else 0


class TranscriptionsDialect(Dialect):
    """`POST /v1/audio/transcriptions`. The directive `events` is the length in seconds; models with
    `whisper` in their name state it, others tokens."""

    name = "transcriptions"

    def read(self, exchange: Exchange) -> Ask:
        texts, files = _form(exchange)
        if list(files) != ["file"] or not files["file"][0].body:
            raise Refusal(400, "Missing required parameter: 'file'.")
        return Ask(
            model=texts["model"],
            stream=False,
            text=texts.get("prompt", "") or files["file"][0].filename,
            input_tokens=tokens_of(len(files["file"][0].body)),
            sim=texts["sim"].encode() if "sim" in texts else None,
            echoed={"form": texts.get("response_format", "json")},
        )

    def plain(self, ask: Ask, response: Completion) -> bytes:
        form, seconds = (ask.echoed or {})["form"], response.events or 1
        if form == "text":
            return response.text.encode() + b"\n"
        if form == "srt":
            return f"1\n00:00:00,000 --> 00:00:{seconds:02},500\n{response.text}\n".encode()
        whole: dict[str, Any] = {"text": response.text}
        if form == "verbose_json":
            whole |= {"task": "transcribe", "language": "english", "duration": seconds + 0.25}
        if response.usage is not None and "whisper" in ask.model:
            whole["usage"] = {"type": "duration", "seconds": seconds}
        elif response.usage is not None:
            heard, written = response.usage.input, response.usage.output
            whole["usage"] = {
                "type": "tokens",
                "input_tokens": heard,
                "output_tokens": written,
                "total_tokens": heard + written,
                "input_token_details": {"text_tokens": 0, "audio_tokens": heard},
            }
        return encode(whole)


class EditsDialect(ImagesDialect):
    """`POST /v1/images/edits`, answered as `/v1/images/generations` is."""

    def read(self, exchange: Exchange) -> Ask:
        texts, files = _form(exchange)
        if not files.keys() & {"image", "image[]"}:
            raise Refusal(400, "Missing required parameter: 'image'.")
        return Ask(
            model=texts["model"],
            stream=False,
            text=texts["prompt"],
            choices=int(texts.get("n", "1")),
            sim=texts["sim"].encode() if "sim" in texts else None,
            echoed={"size": DEFAULT_SIZE, "form": "url", "base": base_of(exchange)},
        )


class RerankDialect(Dialect):
    """`POST /v1/rerank`. The directive `events` is the number of searches that are billed."""

    name = "rerank"

    def read(self, exchange: Exchange) -> Ask:
        request = decode(_reranks, exchange.body)
        return Ask(
            model=request.model,
            stream=False,
            text=request.query,
            choices=min(request.top_n or len(request.documents), len(request.documents)),
            input_tokens=tokens_of(len(exchange.body)),
            sim=given(request.sim),
        )

    def plain(self, ask: Ask, response: Completion) -> bytes:
        results = [
            {"index": place, "relevance_score": 1 / (place + 1)} for place in range(ask.choices)
        ]
        whole: dict[str, Any] = {"id": response.id[:24], "model": ask.model, "results": results}
        if response.usage is not None:
            whole["meta"] = {"billed_units": {"search_units": response.events or 1}}
            whole["usage"] = {"total_tokens": response.usage.input}
        return encode(whole)


class ModerationsDialect(Dialect):
    """`POST /v1/moderations`; what has the word `harm` in it is flagged."""

    name = "moderations"

    def read(self, exchange: Exchange) -> Ask:
        request = decode(_moderations, exchange.body)
        inputs = [request.input] if isinstance(request.input, str) else request.input
        flagged = ["harm" in str(one) for one in inputs]
        return Ask(
            model=request.model, stream=False, sim=given(request.sim), echoed={"flagged": flagged}
        )

    def plain(self, ask: Ask, response: Completion) -> bytes:
        results = [
            {"flagged": one, "categories": {"violence": one}, "category_scores": {"violence": 0.5}}
            for one in (ask.echoed or {})["flagged"]
        ]
        return encode({"id": f"modr-{response.id[:20]}", "model": ask.model, "results": results})


def _form(exchange: Exchange) -> tuple[dict[str, str], dict[str, list[HTTPFile]]]:
    arguments: dict[str, list[bytes]] = {}
    files: dict[str, list[HTTPFile]] = {}
    stated = exchange.header(b"content-type").decode("latin-1")
    parse_body_arguments(stated, exchange.body, arguments, files, HTTPHeaders())
    texts = {name: values[-1].decode() for name, values in arguments.items()}
    if "model" not in texts:
        raise Refusal(400, "you must provide a model parameter")
    return texts, files
