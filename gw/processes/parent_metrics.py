"""The metrics of the parent itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.exposition import choose_encoder

from metrics.families import Families
from metrics.groups.config import ConfigMetrics
from metrics.logs import lines_lost


class FleetMetrics:
    """The metrics of the parent."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        families = Families()
        self.config = ConfigMetrics(families)
        self._config_registry = CollectorRegistry()
        self._config_registry.register(families)
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
        self._hung = Counter(
            "gw_processes_hung",
            "Worker processes killed because their loop gave no sign of life.",
            registry=self._registry,
        )
        self._silent = Gauge(
            "gw_process_silent_seconds",
            "The longest that a worker process which serves has said nothing.",
            registry=self._registry,
        )
        self._log_lines_lost = Counter(
            "gw_parent_log_lines_lost",
            "Log lines that the parent itself could not write.",
            registry=self._registry,
        )
        self._lost_so_far = 0

    def configured(self, count: int) -> None:
        """Set the number of configured workers."""
        self._configured.set(count)

    def running(self, count: int) -> None:
        """Set the number of serving workers."""
        self._running.set(count)

    def hung(self) -> None:
        """Count a worker killed because it hung."""
        self._hung.inc()

    def silent(self, seconds: float) -> None:
        """Set the longest current silence of a worker."""
        self._silent.set(seconds)

    def restarted(self) -> None:
        """Count the restart of a dead worker."""
        self._restarts.inc()

    def render(self, accept: str = "") -> str:
        """Render the parent's own series, in the format that the scraper accepts."""
        lost = lines_lost()
        self._log_lines_lost.inc(lost - self._lost_so_far)
        self._lost_so_far = lost
        encode, _ = choose_encoder(accept)
        return encode(self._registry).decode()

    def render_config(self, accept: str) -> str:
        """Render series that workers have as well: a label separates them."""
        encode, _ = choose_encoder(accept)
        return encode(self._config_registry).decode()
