"""A Prometheus of the distribution's that scrapes one gateway by the shipped configuration.

with running_prometheus(folder, admin_url) as prometheus:
    prometheus.scraped()
    prometheus.query('up{job="gw"}')
"""

import json
import math
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

from tests.support.monitoring import PROMETHEUS
from tests.support.packaged import PROMETHEUS as PROGRAMS
from tests.support.packaged import programs
from tests.support.waiting import PATIENCE_SECONDS, until

SCRAPE = "1s"
RUNBOOKS_URL = "https://runbooks.example/of/the/gateway"


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer; a query that it refuses is an AssertionError."""
        address = f"{self.url}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """What an expression comes to now: labels to number, without what is no number."""
        found = {}
        for sample in self.get("query", query=expression)["result"]:
            value = float(sample["value"][1])
            if not math.isnan(value):
                found[tuple(sorted(sample["metric"].items()))] = value
        return found

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
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=PATIENCE_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
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
            urllib.request.urlopen(f"{server.url}/-/ready", timeout=PATIENCE_SECONDS).close()
        except OSError:
            return False
        return True

    until(is_ready, what="a Prometheus that is ready")
    if process.poll() is None:
        return process, server
    said = (folder / "prometheus.log").read_text(encoding="utf-8")
    assert "address already in use" in said, said
    return None
