"""Request bodies of the messages, responses and native-content dialects, for their tests."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from channels.dialects.gemini import request as gemini
from channels.dialects.messages import request as messages
from channels.dialects.responses import request as responses
from channels.errors import InvalidRequest

MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 5,
    "messages": [{"role": "user", "content": "Hi"}],
}
RESPONSES: dict[str, Any] = {"model": "m", "input": [{"role": "user", "content": "Hi"}]}
GEMINI: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


def encoded(value: object) -> bytes:
    """JSON as the usual client writes it."""
    return json.dumps(value).encode()


def read_messages(**changes: Any) -> messages.MessagesRequest:
    """The smallest request, with some members changed."""
    return messages.read_request(encoded({**MESSAGES, **changes}))


def read_responses(**changes: Any) -> responses.ResponsesRequest:
    """The smallest request, with some members changed."""
    return responses.read_request(encoded({**RESPONSES, **changes}))


def read_gemini(**changes: Any) -> gemini.GeminiRequest:
    """The smallest request, with some members changed."""
    return gemini.read_request(encoded({**GEMINI, **changes}), model="m", stream=False)


def refused(read: Callable[[], object]) -> InvalidRequest:
    """What the reader has against a request; its message begins with the member it names."""
    with pytest.raises(InvalidRequest) as caught:
        read()
    assert caught.value.param is None or caught.value.param in caught.value.message
    return caught.value
