"""A gateway that traces every call: its channels and models, and what its upstream is told."""

from typing import Any

from tests.acceptance import sounds
from tests.acceptance.pictures import picture
from tests.support.collector import ReadSpan, Sink
from tests.support.house import House, channel, model

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
USAGE = {"input": 100, "output": 20, "cached": 40, "reasoning": 5}
CHANNELS = ("one", "two", "three")
HOLD, SETTLE = "gw.wallet.hold", "gw.wallet.settle"
SPEECH = "/v1/audio/speech"
SETTINGS: dict[str, Any] = {
    "channels": [
        *(
            # Our own: they are to go on with the trace.
            channel(
                name, priority=place, protocols=["chat", "images", "speech"], propagate_trace=True
            )
            for place, name in enumerate(CHANNELS)
        ),
        channel("far", protocols=["messages"], kind="anthropic"),
    ],
    "models": [
        model("sim-model", *CHANNELS),
        model("renamed", {"id": "one", "as": "vendor/sim"}, owned_by="vendor"),
        model("abroad", "far", owned_by="elsewhere"),
        picture("picture", "one"),
        model("tts", "one", **sounds.SPOKEN),
        model("film", "one", **sounds.FILMED),
    ],
    "tasks": {"poll_first": 0.1, "poll_max": 0.3},
}
SETTINGS["channels"][0]["protocols"] += ["videos"]


def environ(sink: Sink, **more: str) -> dict[str, str]:
    """What has a gateway export every call at once."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
        "OTEL_TRACES_SAMPLER_ARG": "1.0",
        "OTEL_SERVICE_NAME": "gw-under-test",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "NO_PROXY": "127.0.0.1",
        **more,
    }


def traceparents(h: House) -> list[str | None]:
    """The header of each request that an attempt sent to the upstream, in order.

    Not those of polls, which belong to no call: a task of an earlier test may be polled still.
    """
    sent = [one for one in h.upstream.requests(100) if one["method"] == "POST"]
    return [one["headers"].get("traceparent") for one in sent]


def header(span: ReadSpan) -> str:
    """The `traceparent` that names this span as the parent."""
    return f"00-{span.trace_id}-{span.span_id}-01"
