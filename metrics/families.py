"""Makes the metrics that `series.py` names, and exposes them to a Prometheus registry.

Requesting a name that is not in the table, or of another kind, is a programming error and raises an
AssertionError or KeyError at start.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

from prometheus_client import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from metrics.series import SERIES, Kind, MetricFamily

# The values behind the metrics: one object per series, one family of series per metric.
#
# Own objects instead of prometheus-client's children because every call updates about twenty of
# them: measured, one costs 0.1 to 0.2 µs where a child, which takes locks and scans its buckets,
# costs 0.5 to 0.8. The price is a rule: only the loop's thread writes. A scrape in another thread
# only copies. Names, labels and buckets are in `series.py`, the text format is prometheus-client's.

OTHER = "other"

Key = tuple[str | int, ...]
# A sample's suffix, its labels besides those of its series, its value; and for a bucket an
# observation of a traced call, if any.
Sample = tuple[str, dict[str, str], float, Exemplar | None]


class Number:
    """A counter or a gauge: code adds to `value` or sets it."""

    __slots__ = ("value",)

    def __init__(self, value: float = 0) -> None:
        self.value = value  # stays an exact int as long as only ints are added

    def samples(self) -> list[Sample]:
        """Return the one sample, without a suffix."""
        return [("", {}, self.value, None)]


class Distribution:
    """A histogram: the number of observations under each upper bound.

    Each bucket keeps its last observation with a trace, for scrapers that request exemplars.
    """

    __slots__ = ("_bounds", "_counts", "_exemplars", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._exemplars: dict[int, Exemplar] = {}

    def observe(self, value: float, trace_id: str | None = None) -> None:
        """Count one observation; one equal to a bound is under it."""
        index = bisect_left(self._bounds, value)
        self._counts[index] += 1
        self._sum += value
        if trace_id is not None:
            self._exemplars[index] = Exemplar({"trace_id": trace_id}, value, time.time())

    def observe_all(self, values: Iterable[float]) -> None:
        """Count observations without a trace: a step for each bucket instead of each value."""
        ordered, below = sorted(values), 0
        for index, bound in enumerate(self._bounds):
            up_to = bisect_right(ordered, bound)
            self._counts[index] += up_to - below
            below = up_to
        self._counts[-1] += len(ordered) - below
        self._sum += sum(ordered)

    @property
    def counts(self) -> list[int]:
        """The number of observations in each bucket, and above the last."""
        return self._counts.copy()

    @property
    def total(self) -> float:
        """The sum of all observations."""
        return self._sum

    def samples(self) -> list[Sample]:
        """Return the cumulative buckets, their total and the sum."""
        # One copy, so that buckets and total agree whatever the loop observes meanwhile.
        counts = self._counts.copy()
        samples: list[Sample] = []
        total = 0
        for index, bound in enumerate((*self._bounds, float("inf"))):
            total += counts[index]
            exemplar = self._exemplars.get(index)
            samples.append(("_bucket", {"le": _bound_text(bound)}, total, exemplar))
        return [*samples, ("_count", {}, total, None), ("_sum", {}, self._sum, None)]


C = TypeVar("C")
Shown = list[tuple[tuple[str, ...], C]]


class SeriesFamily(dict[Key, C]):
    """The series of one metric by label values, in the order of its labels. A miss makes one.

    An empty label value is shown as `other`. The bound on their number is the last defence against
    a label with values that a client can choose: above it, new ones share one series of `other`.
    """

    __slots__ = ("_limit", "_new_series", "_width")

    def __init__(self, new_series: Callable[[], C], *, width: int, limit: int) -> None:
        super().__init__()
        self._new_series = new_series
        self._width = width
        self._limit = limit
        if not width:
            self[()] = new_series()  # shown from the start

    def __missing__(self, key: Key) -> C:
        assert len(key) == self._width, key
        if len(self) >= self._limit:
            return self.setdefault((OTHER,) * self._width, self._new_series())
        shown = _shown(key)
        series = self.get(shown)
        if series is None:
            series = self[shown] = self._new_series()
        if shown != key:
            self[key] = series  # the same series under another key: 200 for "200"
        return series

    def discard(self, wanted: Mapping[int, str]) -> None:
        """Drop the series that have the `wanted` values at these positions."""
        for key in list(self):
            if all(key[index] == value for index, value in wanted.items()):
                del self[key]

    def shown(self) -> Shown[C]:
        """Return each series once, with its label values; safe beside the writing thread."""
        copied = dict.copy(self)
        return [(_shown(key), series) for key, series in copied.items() if key == _shown(key)]


def _shown(key: Key) -> tuple[str, ...]:
    return tuple([str(value) or OTHER for value in key])


def _bound_text(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(float(bound))


# Maximum series of one metric. A distribution takes some fifteen lines in every scrape, a number
# one. Both are far above the needs of a catalog of a few hundred models.
NUMBERS_MAX: Final = 4000
DISTRIBUTIONS_MAX: Final = 1000

_TABLE: Final = {series.name: series for series in SERIES}


class Families(Collector):
    """Makes the family of each metric, once, and collects them all."""

    def __init__(self) -> None:
        self._made: dict[MetricFamily, Callable[[], Shown[Any]]] = {}

    def counter(self, name: str) -> SeriesFamily[Number]:
        """Make the family of the counter `name`."""
        return self._numbers(name, "counter")

    def gauge(self, name: str) -> SeriesFamily[Number]:
        """Make the family of the gauge `name`."""
        return self._numbers(name, "gauge")

    def histogram(self, name: str) -> SeriesFamily[Distribution]:
        """Make the family of the histogram `name`."""
        series = _find(name, "histogram")
        family = SeriesFamily(
            lambda: Distribution(series.buckets),
            width=len(series.labels),
            limit=DISTRIBUTIONS_MAX,
        )
        self._made[series] = family.shown
        return family

    def sums(self, name: str, shown: Callable[[], Shown[Number]]) -> None:
        """Make the counter `name` of sums that are made at a scrape, beside the loop's thread."""
        self._made[_find(name, "counter")] = shown

    def describe(self) -> Iterable[Metric]:
        """Yield the metrics without samples: the registry refuses a duplicate name."""
        return [_metric(series) for series in self._made]

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics with their present samples."""
        for series in filter(self._made.__contains__, SERIES):
            metric = _metric(series)
            base = series.name
            for values, one in self._made[series]():
                labels = dict(zip(series.labels, values, strict=True))
                for suffix, more, value, exemplar in one.samples():
                    labelled = {**labels, **more}
                    metric.add_sample(base + suffix, labelled, value, exemplar=exemplar)
            yield metric

    def _numbers(self, name: str, kind: Kind) -> SeriesFamily[Number]:
        series = _find(name, kind)
        family = SeriesFamily(Number, width=len(series.labels), limit=NUMBERS_MAX)
        self._made[series] = family.shown
        return family


def _find(name: str, kind: Kind) -> MetricFamily:
    series = _TABLE[name]
    assert series.kind == kind, series
    return series


def _metric(series: MetricFamily) -> Metric:
    # The library appends a counter's `_total` itself.
    return Metric(series.name.removesuffix("_total"), series.help, series.kind)


# Which model was requested, and which one responded by the upstream's report.


# Outcomes of configurations that were read: in a single process, and in a parent.


# Remaining validity of a certificate below which its alerts fire (ops/prometheus/alerts.yml).
CERTIFICATE_SECONDS = 14 * 86400
CERTIFICATE_SECONDS_MIN = 3 * 86400


class ConfigMetrics:
    """Reloads by outcome, and whether the present file is in force."""

    def __init__(self, make: Families) -> None:
        self._reloads = make.counter("gw_config_reloads_total")
        self._is_last = make.gauge("gw_config_last_reload_successful")[()]
        self._read_at = make.gauge("gw_config_last_success_timestamp_seconds")[()]
        self._certificate = make.gauge("gw_certificate_expiry_timestamp_seconds")[()]

    def started(self, at: float) -> None:
        """Record the start with an accepted configuration, at this Unix time."""
        self._is_last.value = 1
        self._read_at.value = at

    def accepted(self, at: float) -> None:
        """Record a new configuration in force."""
        self._reloads[("accepted",)].value += 1
        self.started(at)

    def certificate(self, expires_at: float) -> None:
        """Record until when the chain shown to clients is valid, in Unix seconds; 0 for none."""
        self._certificate.value = expires_at

    def refused(self) -> None:
        """Record a configuration refused as a whole; the one before stays in force."""
        self._reloads[("refused",)].value += 1
        self._is_last.value = 0

    def conditions(self, now: float) -> Iterator[str]:
        """Yield conditions as `Metrics.conditions`, at this Unix time; none without a file."""
        if self._read_at.value and not self._is_last.value:
            yield "config_reload_refused"
        left = self._certificate.value - now
        if self._certificate.value and left < CERTIFICATE_SECONDS:
            is_soon = left < CERTIFICATE_SECONDS_MIN
            yield "certificate_expiring_soon" if is_soon else "certificate_expiring"


# Calls of agents: their outcomes, and the retrievals for them.


class AgentMetrics:
    """Calls by outcome; retrievals by duration and number of pages."""

    def __init__(self, make: Families) -> None:
        self._calls = make.counter("gw_agent_calls_total")
        self._seconds = make.histogram("gw_agent_retrieval_seconds")[()]
        self._pages = make.histogram("gw_agent_pages_injected")[()]

    def called(self, outcome: str) -> None:
        """Count a call with an agent's key that ended, or was refused after its body."""
        self._calls[(outcome,)].value += 1

    def retrieved(self, *, seconds: float, pages: int) -> None:
        """Count a search of knowledge bases for a call."""
        self._seconds.observe(seconds)
        self._pages.observe(pages)


# Searches of knowledge bases, and links to their sources.


class KnowledgeMetrics:
    """Searches by surface and result; links by result."""

    def __init__(self, make: Families) -> None:
        self._searches = make.counter("gw_kb_searches_total")
        self._seconds = make.histogram("gw_kb_search_seconds")
        self._links = make.counter("gw_kb_source_links_total")
        self._sources_left = make.gauge("gw_stray_source_accounts")[()]

    def searched(self, *, surface: str, result: str, seconds: float) -> None:
        """Count a search: its pages have all terms, any of them, or there are none."""
        self._searches[surface, result].value += 1
        self._seconds[(surface,)].observe(seconds)

    def link_followed(self, result: str) -> None:
        """Count a link to a source: served, expired, invalid or without target."""
        self._links[(result,)].value += 1

    def sources_left(self, accounts: int) -> None:
        """Set the number of accounts with unreferenced sources that cannot be removed."""
        self._sources_left.value = accounts


# Requests of MCP clients, by method and tool.

# Labels of methods unknown to the protocol, and of requests without a known tool.
OTHER_TOOL, NONE = "other", "none"


class McpMetrics:
    """Messages by outcome and duration.

    Unknown methods and tools are never labels: a client could invent any number.
    """

    def __init__(self, make: Families) -> None:
        self._requests = make.counter("gw_mcp_requests_total")
        self._seconds = make.histogram("gw_mcp_seconds")

    def served(self, *, method: str, tool: str, outcome: str, seconds: float) -> None:
        """Count a message that has its response; an empty method or tool is an unknown one."""
        self._requests[method or OTHER_TOOL, tool or NONE, outcome].value += 1
        self._seconds[method or OTHER_TOOL, tool or NONE].observe(seconds)

    def refused(self) -> None:
        """Count a POST that was refused before its message was read."""
        self._requests[OTHER_TOOL, NONE, "refused"].value += 1


# Copies of results.


class MediaStoreMetrics:
    """Attempts by outcome, and the bytes fetched."""

    def __init__(self, make: Families) -> None:
        self._copies = make.counter("gw_media_copies_total")
        self._bytes = make.counter("gw_media_copy_bytes_total")[()]

    def copied(self, outcome: str) -> None:
        """Count an attempt: kept, retried, failed or left."""
        self._copies[(outcome,)].value += 1

    def bytes(self, count: int) -> None:
        """Add received bytes."""
        self._bytes.value += count


# Asynchronous jobs, and the polls that watch them.


class TaskMetrics:
    """Jobs by end state, polls by outcome."""

    def __init__(self, make: Families) -> None:
        self._in_flight = make.gauge("gw_tasks_in_flight")
        self._ended = make.counter("gw_tasks_total")
        self._seconds = make.histogram("gw_task_seconds")
        self._polls = make.counter("gw_task_polls_total")
        self._lag = make.histogram("gw_task_poll_lag_seconds")[()]
        self._unknown = make.counter("gw_task_submit_unknown_total")
        self._doubted = make.counter("gw_task_lengths_doubted_total")
        self._takeovers = make.counter("gw_task_takeovers_total")[()]

    def in_flight(self, counts: Mapping[str, int]) -> None:
        """Set the open jobs in the database by kind, as last counted; every kind is included."""
        for kind, count in counts.items():
            self._in_flight[(kind,)].value = count

    def ended(self, *, kind: str, state: str, seconds: float) -> None:
        """Count a job that ended here, so long after its submission."""
        self._ended[kind, state].value += 1
        self._seconds[(kind,)].observe(seconds)

    def polled(self, *, channel: str, outcome: str, lag_seconds: float) -> None:
        """Count a poll, so long after it was scheduled."""
        self._polls[channel, outcome].value += 1
        self._lag.observe(lag_seconds)

    def submit_unknown(self, channel: str) -> None:
        """Count a submission of unknown outcome."""
        self._unknown[(channel,)].value += 1

    def length_doubted(self, channel: str) -> None:
        """Count a video with an implausible reported length."""
        self._doubted[(channel,)].value += 1

    def taken_over(self) -> None:
        """Count a poll made here that another process never finished."""
        self._takeovers.value += 1


# Usage of the connection pools of the database, and waits for them.


class Pool(Protocol):
    """A connection pool, as read by a scrape beside the thread that uses it."""

    @property
    def size(self) -> int:
        """The maximum number of connections."""

    @property
    def in_use(self) -> int:
        """The number of connections in use, or being opened."""

    @property
    def idle(self) -> int:
        """The number of idle connections."""


class DatabaseMetrics:
    """Connections of every pool, read at a scrape; waits as they end."""

    def __init__(self, make: Families) -> None:
        self._connections = make.gauge("gw_database_connections")
        self._waits = make.histogram("gw_database_wait_seconds")
        self._refusals = make.counter("gw_database_refusals_total")
        self._pools: dict[str, Pool] = {}

    def watch(self, name: str, pool: Pool) -> None:
        """Show this pool from now on."""
        self._pools[name] = pool

    def waiting(self, name: str) -> Callable[[float], None]:
        """Return the observer of waits, in seconds, for a connection of this pool.

        The pool is shown without any yet.
        """
        return self._waits[(name,)].observe

    def refused(self, sqlstate: str) -> None:
        """Count a statement that the server refused for its own state."""
        self._refusals[(sqlstate,)].value += 1

    def read(self) -> None:
        """Read the pools."""
        for name, pool in self._pools.items():
            self._connections[name, "in_use"].value = pool.in_use
            self._connections[name, "idle"].value = pool.idle
            self._connections[name, "limit"].value = pool.size


# The open files of the process, by part, and the connections of its clients.

# Reasons to refuse a client's connection: the limit of clients, or of all files.
REASONS = ("connections", "files")


class FileMetrics:
    """Counts that are read at a scrape; refusals and freed files as they happen."""

    def __init__(self, make: Families) -> None:
        self._files = make.gauge("gw_files")
        self._freed = make.counter("gw_files_freed_total")
        self._connections = make.gauge("gw_http_connections")
        self._refused = make.counter("gw_http_connections_refused_total")
        for reason in REASONS:
            self._refused[(reason,)].value = 0
        self._parts: dict[str, Callable[[], int]] = {}
        self._states: Callable[[], Mapping[str, int]] = dict

    def watch(self, part: str, count: Callable[[], int]) -> None:
        """Show this part from now on. `count` is called beside the loop's thread."""
        self._parts[part] = count

    def watch_connections(self, states: Callable[[], Mapping[str, int]]) -> None:
        """Show the public listener's connections by state; read like a part."""
        self._states = states

    def freed(self, part: str) -> None:
        """Count an idle connection of this part closed because its file was needed."""
        self._freed[(part,)].value += 1

    def refused(self, reason: str) -> None:
        """Count a refused client connection."""
        self._refused[(reason,)].value += 1

    def read(self) -> None:
        """Read all counts."""
        for part, count in self._parts.items():
            self._files[(part,)].value = count()
        for state, count_now in self._states().items():
            self._connections[(state,)].value = count_now


class RecoveryMetrics:
    """Calls settled for a lost process, and the state of this process's recorder."""

    def __init__(self, make: Families) -> None:
        self._recovered = make.counter("gw_calls_recovered_total")[()]
        self._corrected = make.counter("gw_recoveries_corrected_total")[()]
        self._recorder_up = make.gauge("gw_recorder_up")[()]
        self._unrecorded = make.counter("gw_calls_unrecorded_total")[()]
        self._damage = make.counter("gw_recorder_damage_total")[()]

    def recovered(self, count: int) -> None:
        """Count calls of a lost process settled here."""
        self._recovered.value += count

    def corrected(self) -> None:
        """Count a recovered call whose row and cost were corrected to its true settlement."""
        self._corrected.value += 1

    def recorder_up(self, is_up: bool) -> None:
        """Set whether the process has the file of its flight recorder."""
        self._recorder_up.value = int(is_up)

    def unrecorded(self) -> None:
        """Count a stream or a settlement for which the recorder had no room."""
        self._unrecorded.value += 1

    def damaged(self, parts: int) -> None:
        """Count what is damaged of the recorder of a process that died: its head, its slots."""
        self._damage.value += parts
