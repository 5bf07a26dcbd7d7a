"""The bound on values of JSON in a request's texts: arguments and results of calls are decoded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from channels.errors import InvalidRequest
from channels.translation import model

VALUES_MAX = 500_000

# A whole string, possessively, or the mark of one more value.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[,{\[]', re.S)

_QUOTE = ord('"')


def check_inner_values(request: model.Request) -> None:
    """Bound the values of JSON in texts, in total: arguments and results of calls are decoded."""
    texts = list(_inner(request))
    if sum(text.count(",") + text.count("{") + text.count("[") for text in texts) > VALUES_MAX:
        _check(text.encode("utf-8", "surrogatepass") for text in texts)


def _inner(request: model.Request) -> Iterator[str]:
    for turn in request.turns:
        for part in turn.parts:
            if isinstance(part, model.ToolCall):
                yield part.arguments
            elif isinstance(part, model.ToolResult):
                texts = (one.text for one in part.parts if isinstance(one, model.Text))
                yield from (text for text in texts if text.lstrip().startswith("{"))


def _check(texts: Iterable[bytes]) -> None:
    count = 0
    for text in texts:
        for token in _TOKEN.finditer(text):
            if text[token.start()] != _QUOTE:
                count += 1
                if count > VALUES_MAX:
                    raise InvalidRequest(f"The request body holds more than {VALUES_MAX} values.")
