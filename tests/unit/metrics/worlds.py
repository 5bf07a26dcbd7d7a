"""What the tests of this folder share: metrics to be read back, log lines to be read back."""

import io
from typing import Any

import ujson
from prometheus_client import CollectorRegistry

from metrics.logs import flush
from metrics.prometheus import Metrics


class Lines:
    """What was written, line by line."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def all(self) -> list[dict[str, Any]]:
        flush()
        text = self.stream.getvalue()
        assert not text or text.endswith("\n")
        return [ujson.loads(line) for line in text.splitlines()]

    def one(self) -> dict[str, Any]:
        (line,) = self.all()
        return line


class World:
    """Metrics and a way to read them back."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def labels(self, name: str) -> list[dict[str, str]]:
        return [
            dict(sample.labels)
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == name
        ]

    def finish(self, status: str = "success", code: str = "ok", *, seconds: float = 0.3) -> None:
        self.metrics.call_finished(
            protocol="chat", model="gpt-5", status=status, code=code, seconds=seconds
        )

    def use(self, channel: str) -> None:
        """Lease, open and try a channel once."""
        self.metrics.channel_slots(channel=channel, limit=4).value = 1
        for state in ("closed", "open"):
            self.metrics.channel_state(channel=channel, state=state)
        self.metrics.attempt(channel, "ok", 0.1)
