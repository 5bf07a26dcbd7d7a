"""Any value in any place of a request is carried, listed or refused; none is a fault of ours.

The bodies are those of the tables of documented fields, with one value after the other replaced. A
body that the protocol's own reader refuses gets no further.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import ujson

from channels.dialects import chat, gemini, messages, responses
from channels.dialects.table import CHAT_DIALECTS
from channels.errors import InvalidRequest
from channels.json import outline
from channels.translation.model import Protocol
from channels.translation.session import TRANSLATIONS, TranslatedCall
from tests.unit.translators import fields_of_chat, fields_of_messages, fields_of_responses
from tests.unit.translators.gemini import fields_of_gemini

pytestmark = pytest.mark.long

ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, "", "x", "translated:x:y", "dHJhbnNsYXRlZDo="),
    *("http://[", "data:", "data:image/png;base64,%zz", "\u0000"),
    *([], [None], [[]], ["x"], [{}], {}, {"type": "x"}, {"type": []}, {"": {"a": []}}),
]
SAID = [{"role": "user", "content": "hi"}]
CONTENTS = [{"role": "user", "parts": [{"text": "hi"}]}]
BODIES: dict[Protocol, tuple[dict[str, Any], list[Any]]] = {
    "chat": ({"model": "m", "messages": SAID}, fields_of_chat.FIELDS),
    "messages": ({"model": "m", "max_tokens": 9, "messages": SAID}, fields_of_messages.FIELDS),
    "native": ({"contents": CONTENTS}, fields_of_gemini.FIELDS),
    "responses": ({"model": "m", "input": SAID}, fields_of_responses.FIELDS),
}
READERS: dict[Protocol, Callable[[bytes], object]] = {
    "chat": chat.read_request,
    "messages": messages.read_request,
    "native": lambda body: gemini.read_request(body, model="m", stream=False),
    "responses": responses.read_request,
}


def without_foreign(protocol: str, body: bytes, outlined: bytes) -> bytes:
    strip = CHAT_DIALECTS[protocol].without_foreign
    return body if strip is None else strip(body, outlined)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a body, but for the body itself."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, held in value.items():
            yield from places(held, (*path, name))
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from places(held, (*path, index))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    """The body with another value in one place."""
    if not path:
        return by
    step, *rest = path
    if isinstance(value, dict):
        return {**value, step: replaced(value[step], tuple(rest), by)}
    return [*value[:step], replaced(value[step], tuple(rest), by), *value[step + 1 :]]


def accepted(protocol: Protocol) -> Iterator[bytes]:
    """Odd bodies that the protocol's reader lets through."""
    plain, fields = BODIES[protocol]
    for _, fragment, *_ in fields:
        body = {**plain, **fragment}
        for path in places(body):
            for odd in ODD:
                text = json.dumps(replaced(body, path, odd)).encode()
                try:
                    READERS[protocol](text)
                except InvalidRequest:
                    continue
                yield text


@pytest.mark.parametrize("client", BODIES)
def test_odd_value_is_carried_listed_or_refused(client: Protocol) -> None:
    count = 0
    for text in accepted(client):
        body = msgspec.json.decode(text)
        assert isinstance(without_foreign(client, text, outline(text)), bytes)
        for translation in TRANSLATIONS.values():
            if translation.client != client:
                continue
            count += 1
            try:
                call = TranslatedCall(translation, body, redact=str)
                sent = call.upstream_body(model="gemini-3-pro", stream=False, max_tokens=9)
            except InvalidRequest:
                continue
            assert ujson.dumps(sent, ensure_ascii=False).encode(), text
            assert (call.report.warning() or "x").isascii()
    assert count > 1000
