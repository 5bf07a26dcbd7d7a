"""The locustfile: users of every family of endpoints, their measurements, the run, its judgement.

Run by locust in a process of its own (`__main__.py`), never imported by anything else. Beside the
requests (`POST`, `GET`) each stream reports its time to the first event (`FIRST`) and the gaps
between its events (`GAP`), and each task how long it took from its submission (`TASK`), as request
types of their own.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from locust import FastHttpUser, LoadTestShape, events, task
from locust.contrib.fasthttp import FAILURE_EXCEPTIONS

from loadtests.locust.mix import FAMILIES, LOST, MADE, RUN_FILE, Kind, Stream, kinds_of, users_at
from loadtests.locust.verdict import Measured, Thresholds, busiest_rate

FIRST, GAP, TASK = "FIRST", "GAP", "TASK"
SPAWN_PER_SECOND = 100  # locust warns of more: it would measure itself
# Whoever has waited for so long for a byte reports a failure.
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 1.0
POLLS_MAX = 60


# As `__main__.py` has written it.
RUN = SimpleNamespace(**json.loads(Path(os.environ[RUN_FILE]).read_text(encoding="utf-8")))


class Client(FastHttpUser):
    """One user: makes a request of its family, thinks for a moment, makes another."""

    abstract = True
    family = ""
    network_timeout = connection_timeout = PATIENCE_SECONDS

    def on_start(self) -> None:
        """Take one of the keys, and keep it."""
        family = FAMILIES[self.family]
        keys = RUN.agent_keys if family.by_agents else RUN.keys
        self.headers = {"Authorization": f"Bearer {random.choice(keys)}"}
        self.mix = kinds_of(family, has_simulator=RUN.has_simulator)
        self.weights = [kind.weight for kind in self.mix.values()]

    def wait_time(self) -> float:
        """Seconds before the next request."""
        return random.uniform(*FAMILIES[self.family].think_seconds)

    @task
    def ask(self) -> None:
        """Make one request of some kind, follow it to its end and report how it went."""
        ((name, kind),) = random.choices(list(self.mix.items()), self.weights)
        name = f"{self.family} {name}"
        began = time.perf_counter()
        reply = self.request(name, kind)
        if reply and kind.is_task:
            self.wait_for(name, kind, reply["id"], began)
        if reply and kind.detail_of and reply["data"]:
            path = f"{kind.path.partition('?')[0]}/{reply['data'][0][kind.detail_of]}"
            self.request(f"{self.family} detail", Kind(weight=0, path=path, statuses=kind.statuses))

    def request(self, name: str, kind: Kind) -> dict[str, Any]:
        """One request; returns the JSON of a whole answer, nothing of a stream or a failure."""
        body = kind.body_with(RUN.model, has_simulator=RUN.has_simulator)
        key = {"Idempotency-Key": uuid.uuid4().hex} if kind.is_task else {}
        began = time.perf_counter()
        with self.client.request(
            "GET" if body is None else "POST",
            kind.path_with(RUN.model),
            json=body,
            name=name,
            headers={**self.headers, **key},
            stream=kind.stream is not None,
            catch_response=True,
        ) as response:
            if response.status_code not in kind.statuses:
                response.failure(f"status {response.status_code}")
                return {}
            if kind.stream is not None and response.status_code == 200:
                try:
                    fault = self.follow(response, kind, kind.stream, began)
                except FAILURE_EXCEPTIONS as error:
                    # One that its upstream cuts ends without its last chunk.
                    fault = f"broken: {error!r}" if kind.is_complete else ""
                response.request_meta["response_time"] = (time.perf_counter() - began) * 1000
                response.failure(fault) if fault else response.success()
                return {}
            if kind.has and response.status_code == 200 and kind.has not in response.text:
                response.failure(f"an answer without {kind.has}")
                return {}
            response.success()
            is_json = "json" in (response.headers.get("content-type") or "")
            return json.loads(response.content) if is_json and response.status_code == 200 else {}

    def wait_for(self, name: str, kind: Kind, task_id: str, began: float) -> None:
        """Ask for a task until it has ended."""
        poll = Kind(weight=0, path=f"{kind.path}/{task_id}")
        for _ in range(POLLS_MAX):
            time.sleep(POLL_SECONDS)  # locust has made it let the others go on
            reply = self.request(f"{self.family} poll", poll)
            if not reply or reply["status"] in LOST:
                self.measured(TASK, name, began, 0, fault=str(reply.get("status", "lost")))
                return
            if reply["status"] in MADE:
                self.measured(TASK, name, began, 0)
                return
        self.measured(TASK, name, began, 0, fault="never ended")

    def follow(self, response: Any, kind: Kind, stream: Stream, began: float) -> str:
        """Read a stream and measure it; return what is wrong with it, or nothing."""
        before: float | None = None
        is_complete = False
        for event in events_of(response, stream):
            what = FIRST if before is None else GAP
            self.measured(what, f"{self.family} stream", before or began, len(event))
            before = time.perf_counter()
            if kind.leaves:
                response._response.release()  # an answer in the middle closes its connection
                return ""
            is_complete = stream.last.encode() in event
        if before is None:
            return "a stream without an event"
        if not kind.is_complete:
            return "a terminator" if is_complete else "the end of a whole body"
        return "" if is_complete else "no terminator"

    def measured(self, what: str, name: str, began: float, size: int, *, fault: str = "") -> None:
        """Report one measurement that is no request of its own."""
        self.environment.events.request.fire(
            request_type=what,
            name=name,
            response_time=(time.perf_counter() - began) * 1000,
            response_length=size,
            exception=RuntimeError(fault) if fault else None,
            context={},
        )


def events_of(response: Any, stream: Stream) -> Iterator[bytes]:
    """The events of a stream, each at the moment it arrives."""
    while event := response._response.readline(stream.event_end.encode()):
        yield event


# A class of users for each family, which is what locust shares the users out by.
for _name, _family in FAMILIES.items():
    _called = f"{_name.title()}User"
    globals()[_called] = type(_called, (Client,), {"family": _name, "weight": _family.weight})


@events.init.add_listener
def choose(environment: Any, **_: Any) -> None:
    """Keep the users of the families that were asked for."""
    kept = [one for one in environment.user_classes if one.family in RUN.families]
    for one in kept:
        one.weight = 1 if RUN.even else one.weight
    environment.user_classes[:] = kept


class Shape(LoadTestShape):
    """Asks `mix.py` how many users there are now."""

    use_common_options = True  # the peak is locust's own --users

    def tick(self) -> tuple[int, float] | None:
        """Called about once a second."""
        peak = self.runner.environment.parsed_options.num_users or 1
        users = users_at(RUN.shape, self.get_run_time(), peak=peak, seconds=RUN.seconds)
        return None if users is None else (users, SPAWN_PER_SECOND)


@events.quitting.add_listener
def judge(environment: Any, **_: Any) -> None:
    """Decide the exit code: 0 when every threshold was kept."""
    if environment.parsed_options.worker:  # the master has everybody's figures
        return
    entries = environment.stats.entries.items()
    counted = [entry for (_, method), entry in entries if method in {"GET", "POST", TASK}]
    first = [entry for (_, method), entry in entries if method == FIRST]
    measured = _measured(counted, first)
    requested = [kind for one in RUN.families for kind in FAMILIES[one].kinds.values()]
    thresholds = Thresholds(
        p95_first_event_ms=RUN.p95_first_event_ms if any(k.stream for k in requested) else None,
        failure_ratio=RUN.failure_ratio,
    )
    environment.process_exit_code = 0
    verdicts = list(thresholds.verdicts(measured))
    broken = [line for is_kept, line in verdicts if not is_kept]
    Path(RUN.summary).write_text(
        json.dumps({**_summary(measured, counted), "broken": broken}), "utf-8"
    )
    for is_kept, line in verdicts:
        print(f"{'kept  ' if is_kept else 'BROKEN'}  {line}", flush=True)
        if not is_kept:
            environment.process_exit_code = 1


def _measured(counted: Sequence[Any], first: Sequence[Any]) -> Measured:
    p95s = (one.get_response_time_percentile(0.95) for one in first)
    return Measured(
        calls=sum(entry.num_requests for entry in counted),
        failures=sum(entry.num_failures for entry in counted),
        p95_first_event_ms=max(p95s, default=None),
    )


def _summary(measured: Measured, counted: Sequence[Any]) -> dict[str, Any]:
    per_second: Counter[int] = Counter()
    for entry in counted:
        per_second.update(entry.num_reqs_per_sec)
    p95 = measured.p95_first_event_ms
    if p95 is None:
        p95 = max((one.get_response_time_percentile(0.95) for one in counted), default=0)
    return {"requests": measured.calls, "rate": busiest_rate(per_second), "p95_ms": p95}
