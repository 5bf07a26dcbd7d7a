"""What Converse states no usage for: clients find the member, and the estimate is charged."""

from __future__ import annotations

import json
from typing import Any

from channels.dialects.messages.converse import messages_body
from channels.dialects.messages.events import MessagesMeter
from tests.unit.translators.test_converse import EVENTS, WHOLE, streamed


def test_what_states_no_usage_has_the_member_all_the_same_and_is_estimated() -> None:
    endings: list[list[tuple[str, dict[str, Any]]]] = [
        [],
        [("metadata", {"metrics": {}})],
        [("metadata", {"usage": {}})],
    ]
    for ending in endings:
        meter, events = MessagesMeter(), streamed([*EVENTS[:-1], *ending])
        for event in events:
            meter.event(json.dumps(event).encode())
        assert events[-2]["usage"] == {"output_tokens": 0}
        assert (meter.usage, meter.partial_usage) == (None, None)
        assert meter.characters
    meter = MessagesMeter()
    whole = {name: value for name, value in WHOLE.items() if name != "usage"}
    body = messages_body(json.dumps(whole).encode(), "nova")
    meter.body(body)
    assert json.loads(body)["usage"] == {"output_tokens": 0}
    assert (meter.usage, meter.partial_usage) == (None, None)
