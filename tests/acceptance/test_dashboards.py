"""A gateway of two processes under calls of every family, watched by the real Prometheus.

Every query of every panel, annotation and variable, every recording rule and every metric that an
alert looks at finds something, or stands below with the reason why it is rightly empty.
"""

import math
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import yaml

from loadtests.rig.client import fetch
from loadtests.rig.deployment import deployment
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.waiting import until
from tests.acceptance.every_family import SETTINGS, call_everything, callers
from tests.support.boards import Series
from tests.support.monitoring import (
    ALERTS,
    PROMETHEUS,
    RULES,
    TILES,
    Query,
    alert_queries,
    annotation_queries,
    as_run,
    label_values,
    panel_queries,
    recorded_queries,
)
from tests.support.packaged import PROMETHEUS as PROGRAMS
from tests.support.packaged import programs
from tests.support.receiver import Answer, Receiver

pytestmark = pytest.mark.long

SCRAPE = "1s"
RUNBOOKS_URL = "https://runbooks.example/of/the/gateway"


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer; a query that it refuses is an AssertionError."""
        address = f"{self.url}/api/v1/{path}?{urlencode(parameters)}"
        response = fetch(address)
        assert response.status == 200, (parameters, response)
        return response.json["data"]

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """What an expression comes to now: labels to number, without what is no number."""
        found = {}
        for sample in self.get("query", query=expression)["result"]:
            value = float(sample["value"][1])
            if not math.isnan(value):
                found[tuple(sorted(sample["metric"].items()))] = value
        return found

    def over(self, expression: str, begin: float, end: float, step: float) -> Series:
        """What an expression came to at each step; series without a number are left out."""
        parameters = {"start": str(begin), "end": str(end), "step": str(step)}
        return [
            (sample["metric"], [(float(at), float(value)) for at, value in sample["values"]])
            for sample in self.get("query_range", query=expression, **parameters)["result"]
        ]

    def number(self, expression: str) -> float:
        """What an expression without labels comes to; 0 where it finds nothing."""
        return sum(self.query(expression).values())

    def label_values(self, metric: str, label: str) -> list[str]:
        """What a dashboard's variable is filled with."""
        values: list[str] = self.get(f"label/{label}/values", **{"match[]": metric})
        return values

    def scraped(self, times: int = 2) -> None:
        """Wait until it has scraped so often from now on, and evaluated its rules after that."""
        begun = self._counted()
        until(
            lambda: all(
                now >= before + times for now, before in zip(self._counted(), begun, strict=True)
            ),
            what="scrapes and evaluations",
        )

    def _counted(self) -> list[float]:
        lines = fetch(f"{self.url}/metrics").body.decode().splitlines()
        wanted = (
            "prometheus_target_interval_length_seconds_count",
            "prometheus_rule_group_iterations_total",
        )
        counts: dict[str, list[float]] = {name: [0.0] for name in wanted}
        for line in lines:
            for name in wanted:
                if line.startswith(name):
                    counts[name].append(float(line.rpartition(" ")[2]))
        # The slowest of the groups counts.
        scrapes, rounds = counts[wanted[0]], counts[wanted[1]]
        return [sum(scrapes), min(rounds[1:], default=0.0)]


@contextmanager
def running_prometheus(folder: Path, admin_url: str) -> Iterator[Prometheus]:
    """Start one in `folder`, which scrapes often; it is gone afterwards."""
    config = configuration(folder, urlsplit(admin_url).netloc)
    process, server = until(lambda: _started(config, folder), what="a Prometheus on a free port")
    try:
        yield server
    finally:
        process.kill()
        process.wait()


def configuration(folder: Path, target: str) -> Path:
    """The shipped configuration, with this target, and more often than an operator would."""
    shutil.copytree(PROMETHEUS, folder / "prometheus")
    path = folder / "prometheus" / "prometheus.yml"
    config: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["global"] |= {"scrape_interval": SCRAPE, "evaluation_interval": SCRAPE}
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["gateway:9090"]}]
    job["static_configs"] = [{"targets": [target]}]
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _started(config: Path, folder: Path) -> tuple[subprocess.Popen[bytes], Prometheus] | None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        programs(PROGRAMS)["prometheus"],
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=expand-external-labels",
    ]
    environ: Mapping[str, str] = {"RUNBOOKS_URL": RUNBOOKS_URL, "GOMAXPROCS": "1"}
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    server = Prometheus(f"http://127.0.0.1:{port}")

    def is_ready() -> bool:
        if process.poll() is not None:
            return True
        try:
            return fetch(f"{server.url}/-/ready").status == 200
        except OSError:
            return False
        return True

    until(is_ready, what="a Prometheus that is ready")
    if process.poll() is None:
        return process, server
    message = (folder / "prometheus.log").read_text(encoding="utf-8")
    assert "address already in use" in message, message
    return None


PROCESSES = 2
LOCAL_WEBHOOKS: dict[str, Any] = {"webhooks": {"allow": ["127.0.0.0/8"]}}
ROUNDS_MAX = 12

# What nothing in these calls makes happen: a metric, or one as it is selected.
RIGHTLY_EMPTY = {
    "gw_actor_restarts_total": "no actor dies",
    "gw_calls_shed_total": "there is no overload",
    "gw_refusals_unrecorded_total": "no account is refused a thousand calls",
    'gw_task_polls_total{outcome=~"error|timeout|unreachable"}': "every poll is answered",
    'gw_calls_total{code="internal_error"}': "nothing breaks in the gateway",
    "gw_certificate_expiry_timestamp_seconds": "no certificate is served",
    "gw_files_freed_total": "no connection has to give way",
    "gw_task_lengths_doubted_total": "every length is one of a film",
    "gw_usage_doubted_total": "every count is possible",
    "gw_chain_calls_total": "no call names a chain",
    "gw_attribution_other_total": "no account has so many values in a day",
}


# What there is only while an alert fires, which some of the faults bring about.
OF_ALERTS = {"ALERTS", "ALERTS_FOR_STATE"}


@dataclass(frozen=True)
class Watched:
    """The server, and what found nothing after the last round: quantiles fade when calls end.

    `blank` are the tiles that found nothing before the first call.
    """

    prometheus: Prometheus
    blank: Sequence[str]
    empty: Sequence[Query]


SHOWN = [
    Query(query.owner, as_run(query.expression))
    for query in (*panel_queries(), *annotation_queries(), *recorded_queries())
]
# An alert is silent as a whole; what it looks at is there.
LOOKED_AT = [
    Query(query.owner, selector) for query in alert_queries() for selector in query.selectors()
]


def is_excused(query: Query) -> bool:
    """Whether it reads what is rightly empty."""
    names = query.names()
    return names <= OF_ALERTS or any(one in RIGHTLY_EMPTY for one in (*names, *query.selectors()))


def nothing_found(prometheus: Prometheus) -> list[Query]:
    return [query for query in (*SHOWN, *LOOKED_AT) if not prometheus.query(query.expression)]


@pytest.fixture(scope="module")
def watched(
    postgres: PostgresForTests, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """Rounds of calls until all has been seen that can be."""
    with (
        temporary_folder() as folder,
        postgres.database() as url,
        Receiver() as receiver,
        deployment(url, folder, processes=PROCESSES, **SETTINGS, **LOCAL_WEBHOOKS) as h,
        running_prometheus(
            tmp_path_factory.mktemp("prometheus"), h.gateway.admin_url
        ) as prometheus,
    ):
        who = callers(h, tmp_path_factory.mktemp("bases"))
        h.gw("ledger", "verify")
        words = ["--name", "all", "--scope", "account", "--limit-usd", "5000", "--period", "month"]
        h.gw("budget", "create", "--account", who.rich.account, *words)
        receiver.answer = lambda _: Answer(500 if len(receiver.received) % 2 else 204)
        h.gw("webhook", "create", "--url", receiver.url)
        prometheus.scraped()
        blank = [
            panel["title"]
            for _, panel in TILES
            for target in panel["targets"]
            if not prometheus.query(as_run(target["expr"]))
        ]
        for number in range(ROUNDS_MAX):
            call_everything(h, who, number=number)
            h.gateway.popen.send_signal(signal.SIGHUP)
            prometheus.scraped()
            empty = nothing_found(prometheus)
            if all(is_excused(query) for query in empty):
                break
        yield Watched(prometheus, blank, empty)


def test_gateway_is_scraped_as_the_rules_expect(watched: Watched) -> None:
    (up,) = watched.prometheus.query('up{job="gw"}').values()
    assert up == 1
    assert watched.prometheus.number("count(gw_database_up)") == PROCESSES


def test_every_tile_shows_a_number_before_the_first_call(watched: Watched) -> None:
    """No series of a counter is there yet; without a number a tile says that nothing is scraped."""
    assert watched.blank == []


def test_every_query_and_what_every_alert_looks_at_find_something(watched: Watched) -> None:
    assert SHOWN
    assert LOOKED_AT
    assert not [query for query in watched.empty if not is_excused(query)]


def test_what_is_called_empty_is(watched: Watched) -> None:
    empty = {one for query in watched.empty for one in (*query.names(), *query.selectors())}
    assert RIGHTLY_EMPTY.keys() <= empty


def test_every_variable_has_values(watched: Watched) -> None:
    assert label_values()
    assert not [one for one in label_values() if not watched.prometheus.label_values(*one)]


def test_every_rule_is_evaluated_without_an_error(watched: Watched) -> None:
    groups: list[Any] = watched.prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(RULES)
    assert {(rule["name"], rule["health"], rule.get("lastError", "")) for rule in rules} == {
        (rule.get("alert") or rule["record"], "ok", "") for rule in RULES
    }


def test_alert_that_fires_says_where_its_runbook_is(watched: Watched) -> None:
    """A submission of unknown outcome is an alert at once."""

    def firing() -> list[Any]:
        alerts: list[Any] = watched.prometheus.get("alerts")["alerts"]
        return [one for one in alerts if one["labels"]["alertname"] == "TaskSubmitUnknown"]

    alert, *_ = until(firing, what="the alert")
    assert alert["state"] == "firing"
    assert alert["annotations"]["runbook_url"] == f"{RUNBOOKS_URL}/task_submit_unknown.md"
    assert alert["labels"]["channel"] == "lost"
    assert {rule["labels"]["severity"] for rule in ALERTS} == {"critical", "warning"}


def test_models_and_time_of_a_token_are_those_of_the_calls(watched: Watched) -> None:
    request = watched.prometheus.query(
        "sum by (requested, model, answered) (gw_response_models_total)"
    )
    names = {tuple(value for _, value in labels) for labels in request}
    # answered, model, requested
    assert ("sim-model", "sim-model", "sim-latest") in names
    timed = watched.prometheus.query("sum by (model) (gw_output_token_seconds_count)")
    assert {dict(labels)["model"] for labels in timed} == {"sim-model"}
    protocols = watched.prometheus.query("sum by (protocol) (gw_call_latency_seconds_count)")
    assert {"chat", "messages", "responses", "native"} <= {
        dict(labels)["protocol"] for labels in protocols
    }
