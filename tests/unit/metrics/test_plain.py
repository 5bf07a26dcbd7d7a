"""Values of log fields, the lag of the loop, and the commit of a release."""

import asyncio
import os
import subprocess
import sys
import uuid
from collections import UserDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import pytest
import ujson
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from gw.runtime.loop_lag import INTERVAL_SECONDS, LoopLag
from metrics.logs import EventLog
from metrics.plain_values import DEPTH_MAX, ITEMS_MAX, TEXT_CHARACTERS_MAX, plain
from metrics.prometheus import Metrics
from metrics.version import COMMIT_FILE, commit
from tests.support.aio import run
from tests.support.rows import cases
from tests.tidy.files import ROOT


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int


class Grumpy:
    def __str__(self) -> str:
        raise RuntimeError("no")


class GrumpyMapping(Mapping[str, int]):
    def __getitem__(self, name: str) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


@cases(
    "value, shown",
    (None, None),
    (True, True),
    (3, 3),
    (Level.HIGH, 3),
    (2**80, str(2**80)),
    (1.5, 1.5),
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    ("text", "text"),
    (Decimal("0.10"), "0.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00+00:00"),
    (Colour.RED, "Colour.RED"),
    (Point(x=1), "Point(x=1)"),
    (b"caf\xc3\xa9 \xff", "café \ufffd"),
    (ValueError("bad"), "ValueError: bad"),
    (TimeoutError(), "TimeoutError"),
    ([1, (2, "a")], [1, [2, "a"]]),
    (frozenset({1}), [1]),
    ({"a": {"b": [1]}}, {"a": {"b": [1]}}),
    (UserDict({1: "one"}), {"1": "one"}),
    (Grumpy(), "<unprintable Grumpy: RuntimeError>"),
    (GrumpyMapping(), "<unreadable GrumpyMapping: RuntimeError>"),
)
def test_value_of_any_kind_becomes_plain(value: object, shown: object) -> None:
    assert plain(value) == shown


def test_secrets_are_masked_at_every_depth() -> None:
    secret = "Bearer abcdef"
    assert plain({"headers": [("a", secret)], "Bearer xyz": secret.encode()}) == {
        "headers": [["a", "Bearer ***"]],
        "Bearer ***": "Bearer ***",
    }


def test_field_named_as_a_secret_is_masked_whole() -> None:
    assert plain({"x-api-key": "plain words", "password": ["a"], "key": "key_1"}) == {
        "x-api-key": "***",
        "password": "***",
        "key": "key_1",
    }


def test_value_that_holds_itself_ends() -> None:
    knot: dict[str, Any] = {}
    knot["self"] = knot
    shown = plain(knot)
    for _ in range(DEPTH_MAX - 1):
        shown = shown["self"]
    assert isinstance(shown["self"], str)


def test_wide_value_is_cut() -> None:
    assert len(plain(list(range(10 * ITEMS_MAX)))) == ITEMS_MAX
    assert len(plain({str(n): n for n in range(10 * ITEMS_MAX)})) == ITEMS_MAX


def test_long_text_is_cut_and_says_so() -> None:
    shown = plain("a b " * 50_000)
    assert len(shown) < TEXT_CHARACTERS_MAX + 30
    assert shown.endswith("… (200000 characters)")


def test_long_text_shows_no_part_of_a_secret() -> None:
    key = "sk-platform-" + "ab" * 32
    for shift in range(80):
        shown = plain("a " * ((TEXT_CHARACTERS_MAX - 2 * shift) // 2) + key + " tail" * 5000)
        assert "sk-platform-abab" + "a" not in shown


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner)
    ),
    max_leaves=20,
)


@given(anything)
def test_whatever_is_plain_can_be_written(value: object) -> None:
    written = ujson.dumps(plain(value))
    assert "\n" not in written
    ujson.loads(written)


@given(st.text(st.characters(categories=("Cs", "Cc", "Lu")), max_size=20))
def test_surrogates_and_control_characters_can_be_written(value: str) -> None:
    ujson.dumps(plain({value: value})).encode("ascii")


# --- Loop lag on a clock that moves by hand ---


class RecordingLog(EventLog):
    """Keeps the warnings."""

    __slots__ = ("warnings",)

    def __init__(self) -> None:
        super().__init__("test")
        self.warnings: list[dict[str, Any]] = []

    def warning(self, action: str, /, *, exc_info: bool = False, **fields: Any) -> None:
        self.warnings.append({"action": action, **fields})


class LateClock:
    """Wakes each sleeper as late as the next number says; ends the run when there is none."""

    def __init__(self, *lags: float) -> None:
        self._lags = list(lags)
        self._now = 1000.0
        self.asked: list[float] = []

    def monotonic(self) -> float:
        return self._now

    now = monotonic

    async def sleep(self, seconds: float) -> None:
        if not self._lags:
            raise asyncio.CancelledError
        self.asked.append(seconds)
        self._now += seconds + self._lags.pop(0)


class Watch:
    """Keeps every measurement."""

    def __init__(self, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self.interval_seconds = interval_seconds
        self.lags: list[float] = []

    def measured(self, lag_seconds: float, *, now: float) -> None:
        self.lags.append(lag_seconds)


def measure(
    *lags: float, watch: Watch | None = None
) -> tuple[CollectorRegistry, list[dict[str, Any]], LateClock]:
    registry, log, clock = CollectorRegistry(), RecordingLog(), LateClock(*lags)
    lag = LoopLag(metrics=Metrics(registry), clock=clock, watch=watch or Watch(), log=log)

    async def main() -> None:
        try:
            await lag.run()
        except asyncio.CancelledError:
            return

    run(main())
    return registry, log.warnings, clock


def test_each_interval_is_measured() -> None:
    registry, warnings, clock = measure(0.0, 0.004, 0.03)
    assert clock.asked == [INTERVAL_SECONDS] * 3
    assert 0.1 <= INTERVAL_SECONDS <= 0.25
    assert registry.get_sample_value("gw_loop_lag_seconds_count") == 3
    assert registry.get_sample_value("gw_loop_lag_seconds_bucket", {"le": "0.005"}) == 2
    assert warnings == []


def test_operator_gets_one_measurement_an_interval_of_those_that_decide_on_overload() -> None:
    watch = Watch(INTERVAL_SECONDS / 4)
    registry, warnings, clock = measure(*[0.0] * 5, 0.9, *[0.0] * 2, watch=watch)
    assert clock.asked == [INTERVAL_SECONDS / 4] * 8
    assert [round(one, 3) for one in watch.lags] == [0.0] * 5 + [0.9] + [0.0] * 2
    assert registry.get_sample_value("gw_loop_lag_seconds_count") == 2
    assert warnings == [{"action": "loop_lagged", "worst_seconds": 0.9, "times": 1}]


def test_waking_early_counts_as_on_time() -> None:
    lag = LoopLag(metrics=Metrics(CollectorRegistry()), clock=LateClock(), watch=Watch())
    assert repr(lag) == "<LoopLag 0 unreported, worst 0.000 s>"
    watch = Watch()
    measure(-0.01, watch=watch)
    assert watch.lags == [0.0]


def test_late_loop_is_a_warning() -> None:
    _, warnings, _ = measure(0.7004)
    assert warnings == [{"action": "loop_lagged", "worst_seconds": 0.7, "times": 1}]


def test_steadily_late_loop_warns_once_in_ten_seconds() -> None:
    _, warnings, _ = measure(0.6, *[0.8] * 8, 0.9, *[0.8] * 2)
    # The first at once; then, ten seconds after it, the ten that were late since.
    assert warnings == [
        {"action": "loop_lagged", "worst_seconds": 0.6, "times": 1},
        {"action": "loop_lagged", "worst_seconds": 0.9, "times": 10},
    ]


def test_lag_within_the_quiet_time_is_reported_after_it() -> None:
    _, warnings, _ = measure(0.7, 0.6, *[0.0] * 60)
    assert [warning["times"] for warning in warnings] == [1, 1]
    assert [warning["worst_seconds"] for warning in warnings] == [0.7, 0.6]


HASH = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example"]
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_build_writes_the_commit_where_it_is_read(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path)]
    # Sources are only read: what setuptools writes beside them goes into the test's folder.
    command[3:3] = ["egg_info", "--egg-base", str(tmp_path)]
    environ = {**os.environ, "GW_COMMIT": HASH, "PYTHONWARNINGS": "ignore"}
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    assert commit(tmp_path / "metrics") == HASH
    assert not (ROOT / "metrics" / COMMIT_FILE).exists()


def test_checkout_is_asked(tmp_path: Path) -> None:
    package = tmp_path / "metrics"
    package.mkdir()
    git(tmp_path, "init", "--quiet")
    assert commit(package) == ""  # no commit yet
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "one")
    assert commit(package) == git(tmp_path, "rev-parse", "HEAD")


def test_unknown_commit_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit(tmp_path / "metrics") == ""
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert commit(tmp_path / "metrics") == ""
