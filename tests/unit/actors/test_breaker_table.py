"""The breaker's table, row by row, and what must change nothing."""

from actors.circuit_breaker import Health, Verdict, finished, probed, tried
from channels.registry import HealthSpec
from tests.support.rows import cases

SPEC = HealthSpec(failures=3, cooldown_seconds=10.0)
OPEN = Health(state="open", open_until=110.0)
PROBING = Health(state="half_open", is_probing=True)


def end(health: Health, verdict: Verdict, *, is_probe: bool = False, now: float = 100.0) -> Health:
    return finished(health, verdict, is_probe=is_probe, spec=SPEC, now=now)


@cases(
    "before, verdict, is_probe, after",
    (Health(), "success", False, Health()),
    (Health(failures=2), "success", False, Health()),
    (Health(failures=1), "failure", False, Health(failures=2)),
    (Health(failures=2), "failure", False, OPEN),
    (Health(failures=2), "abandoned", False, Health(failures=2)),
    (OPEN, "success", False, OPEN),
    (OPEN, "failure", False, OPEN),
    (PROBING, "success", False, PROBING),
    (PROBING, "failure", False, PROBING),
    (PROBING, "success", True, Health()),
    (PROBING, "failure", True, OPEN),
    (PROBING, "abandoned", True, Health(state="half_open")),
)
def test_finished_attempt_moves_by_the_table(
    before: Health, verdict: Verdict, is_probe: bool, after: Health
) -> None:
    assert end(before, verdict, is_probe=is_probe) == after


def test_rest_between_trials_doubles_up_to_32_cooldowns_until_one_succeeds() -> None:
    health, now, rests = OPEN, 110.0, []
    for _ in range(8):
        assert health.may_try(now)
        probing = tried(probed(health), now, SPEC)
        health = end(probing, "failure", is_probe=True, now=now)
        assert health.open_until == now + SPEC.cooldown_seconds  # others may need it before
        rests.append((health.trial_at - now) / SPEC.cooldown_seconds)
        now = health.trial_at
        assert not health.may_try(now - 0.1)
    assert rests == [1, 2, 4, 8, 16, 32, 32, 32]
    probing = tried(probed(health), now, SPEC)
    assert not end(probing, "abandoned", is_probe=True, now=now).may_try(now)
    assert end(probing, "success", is_probe=True, now=now) == Health()
