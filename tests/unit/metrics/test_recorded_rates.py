"""How quickly models write, which of them answer, and what waits for the database."""

from dataclasses import dataclass

import pytest

from metrics.groups.response_models import NAME_CHARACTERS_MAX, PAIRS_PER_MODEL_MAX
from tests.unit.metrics.worlds import World


@dataclass
class Pool:
    """A pool of connections."""

    size: int = 4
    in_use: int = 0
    idle: int = 0


def responses_of(world: World) -> list[tuple[str, str, str]]:
    """The names under which answers are counted."""
    found = world.labels("gw_response_models_total")
    return [(one["requested"], one["model"], one["answered"]) for one in found]


def test_answer_is_counted_by_the_names_it_has(world: World) -> None:
    for named in ("gpt-5-2026", "gpt-5-2026", "gpt-5"):
        world.metrics.models.responded("gpt-latest", "gpt-5", named)
    names = {"requested": "gpt-latest", "model": "gpt-5"}
    assert world.value("gw_response_models_total", **names, answered="gpt-5-2026") == 2
    assert world.value("gw_response_models_total", **names, answered="gpt-5") == 1


def test_upstream_that_gives_each_answer_a_name_makes_few_series(world: World) -> None:
    for number in range(10 * PAIRS_PER_MODEL_MAX):
        world.metrics.models.responded("m", "m", f"m-{number}")
    world.metrics.models.responded("n", "n", "n")
    found = responses_of(world)
    assert len(found) == PAIRS_PER_MODEL_MAX + 2
    assert ("n", "n", "n") in found
    others = world.value("gw_response_models_total", requested="other", model="m", answered="other")
    assert others == 9 * PAIRS_PER_MODEL_MAX


@pytest.mark.parametrize("length", [NAME_CHARACTERS_MAX, NAME_CHARACTERS_MAX + 1])
def test_name_of_unusual_length_is_not_kept(world: World, length: int) -> None:
    world.metrics.models.responded("m", "m", "x" * length)
    (found,) = responses_of(world)
    assert (found[2] == "other") == (length > NAME_CHARACTERS_MAX)


def test_pool_is_seen_as_it_is_at_the_scrape(world: World) -> None:
    pool = Pool()
    wait = world.metrics.database.waiting("calls")
    world.metrics.database.watch("calls", pool)
    assert world.value("gw_database_wait_seconds_count", pool="calls") == 0
    pool.in_use, pool.idle = 3, 1
    wait(0.3)
    world.metrics.render("")
    shown = {
        state: world.value("gw_database_connections", pool="calls", state=state)
        for state in ("in_use", "idle", "limit")
    }
    assert shown == {"in_use": 3, "idle": 1, "limit": 4}
    assert world.value("gw_database_wait_seconds_count", pool="calls") == 1


def test_version_and_proof_are_shown(world: World) -> None:
    world.metrics.release("1.2.3")
    world.metrics.ledger_proved(at=1_750_000_000.0, faults=2)
    assert world.value("gw_build_info", version="1.2.3") == 1
    assert world.value("gw_ledger_proof_timestamp_seconds") == 1_750_000_000.0
    assert world.value("gw_ledger_proof_faults") == 2
