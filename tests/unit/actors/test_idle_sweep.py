"""The sweep drops what is idle, keeps what is not, and never does much at once."""

from actors.limits.idle_sweep import FEWEST, LAP_ROUNDS, IdleSweep


def filled(count: int) -> tuple[dict[str, int], IdleSweep[int]]:
    entries: dict[str, int] = {}
    sweep = IdleSweep(entries)
    for number in range(count):
        entries[str(number)] = number
        sweep.add(str(number))
    return entries, sweep


def test_idle_entries_go_and_others_stay() -> None:
    entries, sweep = filled(10)
    assert sweep.round(lambda number: number % 2 == 0) == 10
    assert set(entries.values()) == {1, 3, 5, 7, 9}
    assert len(sweep) == 5
    assert sweep.round(lambda number: True) == 5
    assert (entries, len(sweep)) == ({}, 0)
    assert sweep.round(lambda number: True) == 0


def test_round_looks_at_a_share_and_a_lap_at_everything() -> None:
    count = 100 * FEWEST
    entries, sweep = filled(count)
    looked: list[int] = []

    def is_idle(number: int) -> bool:
        looked.append(number)
        return False

    for _ in range(LAP_ROUNDS):
        share = sweep.round(is_idle)
        assert share <= max(FEWEST, count // LAP_ROUNDS + 1)
    assert set(looked) == set(range(count))
    assert len(entries) == count
