"""What the parent of several processes reports beside what they report themselves."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    generate_latest,
)


class FleetMetrics:
    """The metrics of the parent."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry, namespace="gw_parent")
        self._running = Gauge(
            "gw_processes_running", "Worker processes that serve.", registry=self._registry
        )
        self._configured = Gauge(
            "gw_processes_configured",
            "Worker processes that there should be.",
            registry=self._registry,
        )
        self._restarts = Counter(
            "gw_process_restarts",
            "Worker processes started in place of one that died.",
            registry=self._registry,
        )

    def configured(self, count: int) -> None:
        """So many workers there should be."""
        self._configured.set(count)

    def running(self, count: int) -> None:
        """So many workers serve."""
        self._running.set(count)

    def restarted(self) -> None:
        """A worker that had died is started again."""
        self._restarts.inc()

    def render(self) -> str:
        """The text format 0.0.4."""
        return generate_latest(self._registry).decode()
