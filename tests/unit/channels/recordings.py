"""Recordings of real providers, where their folder is next to the project; in most places not.

They are an extra: every test that replays them has cases of its own beside them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[4] / "shared" / "recordings"


def streams(dialect: str) -> list[Path]:
    """Recorded streams: the data of one event in each line, or the bytes as they came."""
    folder = FOLDER / dialect
    return [*sorted(folder.glob("*.chunks.txt")), *sorted(folder.glob("*-streaming-*.txt"))]


def wholes(dialect: str) -> list[Path]:
    """Recorded bodies, error bodies among them."""
    folder = FOLDER / dialect
    return [*sorted(folder.glob("*.json")), *sorted(folder.glob("*-unary-*.txt"))]


def stream_of(path: Path) -> bytes:
    """A transcript's bytes, or a recording as a stream."""
    if not path.name.endswith(".chunks.txt"):
        return path.read_bytes()
    events = [line for line in path.read_bytes().splitlines() if line.strip()]
    return b"".join(b"data: " + event + b"\n\n" for event in events)


def values_of(stream: bytes) -> Iterator[dict[str, Any]]:
    """The events of a recorded stream; some lack the bracket that closes them."""
    for line in stream.splitlines():
        if line.startswith(b"data: "):
            data = line.removeprefix(b"data: ")
            try:
                if data != b"[DONE]":
                    yield json.loads(data)
            except ValueError:
                yield json.loads(data + b"}")


def stated_usage(dialect: str, values: list[dict[str, Any]]) -> tuple[int, int] | None:
    """Input and output as the events, or one whole answer, state them: no count ever falls."""
    stated: dict[str, int] = {}
    for value in values:
        if dialect == "messages":
            usage = value.get("usage") or value.get("message", {}).get("usage") or {}
        elif dialect == "chat":
            usage = value.get("usage") or {}
        elif dialect == "responses":
            usage = value.get("usage") or (value.get("response") or {}).get("usage") or {}
        else:
            usage = value.get("usageMetadata") or {}
        for name, count in usage.items():
            if type(count) is int:
                stated[name] = max(count, stated.get(name, 0))
    if dialect == "native":
        if "promptTokenCount" not in stated:
            return None
        taken = stated["promptTokenCount"] + stated.get("toolUsePromptTokenCount", 0)
        given = stated.get("candidatesTokenCount", 0) + stated.get("thoughtsTokenCount", 0)
        return taken, given
    if dialect == "chat":
        taken = stated["prompt_tokens"]
        return taken, stated.get("total_tokens", taken + stated["completion_tokens"]) - taken
    if "output_tokens" not in stated:
        return None
    caches = ("cache_read_input_tokens", "cache_creation_input_tokens")
    taken = stated["input_tokens"] + sum(stated.get(name, 0) for name in caches)
    return taken, stated["output_tokens"]
