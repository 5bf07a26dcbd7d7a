"""The flight recorder: what a reader gets of it, wherever its writer was stopped."""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import asdict, replace

from actors.wallet.claims import Free
from actors.wallet.flight_recorder.file_format import (
    DAMAGED,
    FOLDER,
    PAGE_BYTES,
    SLOT_BYTES,
    SUFFIX,
    Ended,
    StreamProgress,
)
from actors.wallet.flight_recorder.recorder import Recorder
from actors.wallet.flight_recorder.wreck import DAMAGED_KEPT, WreckTaken, left_behind, open_wreck
from actors.wallet.messages import Admitted
from actors.wallet.rows import encode_settlement
from actors.wallet.storable import encode_detail, encode_json
from metrics.prometheus import Metrics
from tests.support.ledger_values import facts, hold, outcome, settle
from tests.support.logs import logs

NAME = "proc_a"
SO_FAR = {"cost": 3, "input": 2, "output": 1, "cached": 0, "cache_write": 0, "basis": "estimated"}


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(Metrics())
    assert made.open(tmp_path, NAME, slots=4)
    yield made
    made.close()


def path_in(folder: Path, name: str = NAME) -> Path:
    return folder / FOLDER / (name + SUFFIX)


def end(recorder: Recorder, number: int, cost: int, **more: Any) -> None:
    ended = outcome(cost, **more)
    recorder.settled(encode_settlement(facts(number), ended), ended)


def left(folder: Path, content: bytes | None = None) -> dict[UUID, Any]:
    """What is read of a copy of the file, as of that of a process that is no more."""
    elsewhere = folder / "copy"
    path_in(elsewhere).parent.mkdir(parents=True, exist_ok=True)
    path_in(elsewhere).write_bytes(path_in(folder).read_bytes() if content is None else content)
    wreck = open_wreck(elsewhere, NAME)
    assert wreck is not None
    wreck.close()
    return dict(wreck.calls)


def damage_of(folder: Path, content: bytes, name: str = NAME) -> tuple[int, int]:
    """How many calls a dead process's file of this content gives, and how much of it is damaged;
    it is gone afterwards.
    """
    path_in(folder, name).parent.mkdir(parents=True, exist_ok=True)
    path_in(folder, name).write_bytes(content)
    wreck = open_wreck(folder, name)
    assert wreck is not None
    wreck.remove()
    wreck.close()
    assert left_behind(folder) == []
    return len(wreck.calls), wreck.damage


def test_settlement_comes_back_as_it_was(recorder: Recorder, tmp_path: Path) -> None:
    detail = {"price": {"input": "1"}}
    result = outcome(7, detail=detail, attempts=[{"channel": "a"}], result_urls=["u"])
    for ended in (result, replace(result, detail=encode_detail(detail))):
        recorder.settled(encode_settlement(facts(1), ended), ended)
        assert left(tmp_path)[UUID(int=1)].what == Ended(facts=facts(1), outcome=result)


def test_what_was_stored_with_every_default_is_read(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the release before does, beside which this one runs in an upgrade."""
    result = outcome(7, detail={"hold": 9}, attempts=[], result_urls=[])
    whole = {"type": "settled", "facts": asdict(facts(1)), "outcome": asdict(result), "held": None}
    monkeypatch.setattr(
        "actors.wallet.flight_recorder.recorder.encode", lambda _: encode_json(whole)
    )
    end(recorder, 1, 7)
    assert left(tmp_path)[UUID(int=1)].what == Ended(facts(1), result)


def test_mark_of_the_version_before_is_no_count_of_tokens(
    recorder: Recorder, tmp_path: Path
) -> None:
    slot = recorder.delivers(UUID(int=1), SO_FAR)
    assert slot is not None
    recorder.counts(slot, 2**63 + 1)
    assert left(tmp_path)[UUID(int=1)].output_tokens == 0


def test_what_no_client_has_been_given_is_not_recorded(recorder: Recorder, tmp_path: Path) -> None:
    """An answer under an idempotency key goes out when it is committed; a job is no process's."""
    recorder.settled(encode_settlement(facts(1), outcome(7), claim_end=Free()), outcome(7))
    recorder.settled(encode_settlement(facts(2, job_id="task_2"), outcome(7)), outcome(7))
    assert left(tmp_path) == {}


def test_stream_is_known_by_its_first_byte_and_its_last_count(
    recorder: Recorder, tmp_path: Path
) -> None:
    slot = recorder.delivers(UUID(int=1), SO_FAR)
    assert slot is not None
    recorder.counts(slot, 40)
    recorder.counts(slot, 41)
    found = left(tmp_path)[UUID(int=1)]
    known = StreamProgress(call_id=UUID(int=1), delivered=SO_FAR)
    assert (found.what, found.output_tokens) == (known, 41)
    end(recorder, 1, 9)
    assert isinstance(left(tmp_path)[UUID(int=1)].what, Ended)
    recorder.forget([settle(1, 9)])
    assert (left(tmp_path), len(recorder)) == ({}, 0)
    again = recorder.delivers(UUID(int=2), SO_FAR)
    assert again == slot  # and nothing of the call before is in it
    assert left(tmp_path)[UUID(int=2)].output_tokens == 0


@pytest.mark.parametrize("what", ["settled", "forgotten"])
def test_write_that_is_cut_anywhere_leaves_what_was_there(
    recorder: Recorder, tmp_path: Path, what: str
) -> None:
    """The bytes of a payload become visible one after the other, and then the mark at once."""
    recorder.delivers(UUID(int=1), SO_FAR)
    before = path_in(tmp_path).read_bytes()
    if what == "settled":
        end(recorder, 1, 9)
    else:
        recorder.forget([settle(1, 9)])
    after = path_in(tmp_path).read_bytes()
    changed = [at for at in range(len(after)) if before[at] != after[at]]
    payload = [at for at in changed if at >= min(changed) + 16]
    for cut in range(len(payload) + 1):
        torn = bytearray(before)
        for at in payload[:cut]:
            torn[at] = after[at]
        assert isinstance(left(tmp_path, bytes(torn))[UUID(int=1)].what, StreamProgress)
        assert damage_of(tmp_path / "torn", bytes(torn)) == (1, 0)
    whole = left(tmp_path, after)
    assert isinstance(whole[UUID(int=1)].what, Ended) if what == "settled" else whole == {}


@logs("recorder_damaged")
def test_count_that_is_damaged_counts_nothing(recorder: Recorder, tmp_path: Path) -> None:
    slot = recorder.delivers(UUID(int=1), SO_FAR)
    assert slot is not None
    recorder.counts(slot, 300)
    content = bytearray(path_in(tmp_path).read_bytes())
    content[slot] ^= 1
    assert left(tmp_path, bytes(content))[UUID(int=1)].output_tokens == 0


@logs("recorder_damaged")
def test_file_cut_short_gives_the_slots_that_are_whole(recorder: Recorder, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        end(recorder, number, number)
    cut = path_in(tmp_path).read_bytes()[: PAGE_BYTES + 2 * SLOT_BYTES + 9]
    assert set(left(tmp_path, cut)) == {UUID(int=1), UUID(int=2)}
    assert damage_of(tmp_path / "cut", cut) == (2, 2)
    assert damage_of(tmp_path / "empty", b"") == (0, 1)


@logs("recorder_damaged")
@pytest.mark.parametrize("spoil", [0, 8, 12, 20, 80])
def test_calls_of_a_file_with_a_damaged_head_are_read(
    recorder: Recorder, tmp_path: Path, spoil: int
) -> None:
    end(recorder, 1, 7)
    content = bytearray(path_in(tmp_path).read_bytes())
    content[spoil] ^= 1
    assert damage_of(tmp_path / "spoilt", bytes(content)) == (1, 1)


@logs("recorder_damaged")
def test_file_of_another_process_gives_nothing(recorder: Recorder, tmp_path: Path) -> None:
    """The other one may live, and its calls be under way."""
    end(recorder, 1, 7)
    content = path_in(tmp_path).read_bytes()
    assert damage_of(tmp_path / "copied", content, "proc_b") == (0, 1)


@logs("recorder_damaged")
def test_any_flipped_byte_of_what_counts_is_seen(recorder: Recorder, tmp_path: Path) -> None:
    """Of a slot in use: its marks, its newest half; the older half is of no account."""
    slot = recorder.delivers(UUID(int=1), SO_FAR)
    assert slot is not None
    recorder.counts(slot, 40)
    end(recorder, 2, 9)
    content = path_in(tmp_path).read_bytes()
    written = [at for at in range(PAGE_BYTES, len(content)) if content[at]]
    for at in written:
        flipped = bytearray(content)
        flipped[at] ^= 0x40
        calls, damage = damage_of(tmp_path / "flipped", bytes(flipped))
        assert damage == 1, at
        assert calls == (2 if at < PAGE_BYTES + 32 else 1), at
    zeroed = content[:PAGE_BYTES] + bytes(SLOT_BYTES) + content[PAGE_BYTES + SLOT_BYTES :]
    assert damage_of(tmp_path / "zeroed", zeroed) == (1, 0)  # as if it had never been used


@logs("recorder_damaged")
def test_damaged_files_are_put_aside_and_the_newest_are_kept(tmp_path: Path) -> None:
    names = [f"proc_{number}" for number in range(DAMAGED_KEPT + 2)]
    for number, name in enumerate(names):
        damage_of(tmp_path, b"", name)
        os.utime(path_in(tmp_path, name).with_suffix(DAMAGED), (number, number))
    kept = sorted(path.stem for path in (tmp_path / FOLDER).iterdir())
    assert kept == names[-DAMAGED_KEPT:]
    assert open_wreck(tmp_path, "proc_unknown") is None


@logs("recorder_damaged")
def test_what_is_no_file_is_put_aside(tmp_path: Path) -> None:
    path_in(tmp_path).mkdir(parents=True)
    wreck = open_wreck(tmp_path, NAME)
    assert wreck is not None
    wreck.remove()
    wreck.close()
    assert left_behind(tmp_path) == []


@logs("recorder_damaged", "recorder_not_removed")
def test_file_that_cannot_be_removed_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EROFS, "read-only")

    path_in(tmp_path).parent.mkdir()
    path_in(tmp_path).touch()
    wreck = open_wreck(tmp_path, NAME)
    assert wreck is not None
    monkeypatch.setattr(Path, "rename", refuse)
    wreck.remove()
    wreck.close()
    assert left_behind(tmp_path) == [NAME]


def test_file_of_a_living_process_is_taken(recorder: Recorder, tmp_path: Path) -> None:
    with pytest.raises(WreckTaken):
        open_wreck(tmp_path, NAME)
    assert left_behind(tmp_path) == [NAME]
    recorder.close()
    assert left_behind(tmp_path) == []


def test_file_stays_while_a_call_is_not_settled(tmp_path: Path) -> None:
    one = Recorder(Metrics())
    assert one.open(tmp_path, NAME, slots=4)
    end(one, 1, 7)
    one.close()
    wreck = open_wreck(tmp_path, NAME)
    assert wreck is not None
    assert set(wreck.calls) == {UUID(int=1)}
    wreck.remove()
    wreck.close()
    assert left_behind(tmp_path) == []


def test_settlement_too_long_for_a_slot_loses_its_attempts_first(
    recorder: Recorder, tmp_path: Path
) -> None:
    price = {"input": "1", "output": "2"}
    long = {"attempts": [{"message": "m" * 3000}], "error_message": "e" * 900}
    detail = {"price": price, "request": {"x": "y" * 3000}}
    for one in (detail, encode_detail(detail)):
        end(recorder, 1, 7, detail=one, **long)
        found = left(tmp_path)[UUID(int=1)].what.outcome
        assert (found.cost_nano_usd, found.detail, [*found.attempts]) == (7, {"price": price}, [])


LONG_FACTS = {"account_id": "a" * 200, "model": "\x1f" * 200, "made_id": "m" * 900}


@pytest.mark.parametrize(
    ("long", "facts_of"),
    [
        ({"result_urls": ["https://cdn/" + "u" * 900] * 4, "result_expires_at": 2e9}, {}),
        ({"error_message": "\x1f" * 2000, "error_code": "\x1f" * 2000}, {}),
        ({"attempts": [{"x": "y" * 900}] * 3, "detail": {"price": {"input": "1" * 3000}}}, {}),
        ({"channel_id": "\x1f" * 3000, "result_urls": ["u" * 3000]}, LONG_FACTS),
    ],
)
def test_settlement_keeps_its_cost_whatever_else_is_too_long(
    recorder: Recorder, tmp_path: Path, long: dict[str, Any], facts_of: dict[str, Any]
) -> None:
    of_call = replace(facts(1), **facts_of)
    ended = replace(outcome(7), units=4, input_tokens=3, served="gpt", **long)
    admitted = Admitted(replace(hold(1), facts=of_call, amount_nano_usd=90), NAME, 0.0, None)
    recorder.settled(encode_settlement(of_call, ended, admitted), ended)
    what = left(tmp_path)[UUID(int=1)].what
    assert isinstance(what, Ended)
    kept = (what.outcome.cost_nano_usd, what.outcome.status, what.outcome.served)
    assert kept == (7, "success", "gpt")
    assert (what.outcome.units, what.outcome.input_tokens, what.held) == (4, 3, 90)
    assert (what.facts.account_id, what.facts.key_id) == (of_call.account_id, of_call.key_id)
    assert of_call.model.startswith(what.facts.model)
    assert what.facts.model


def test_call_under_way_keeps_its_hold_whatever_else_is_too_long(
    recorder: Recorder, tmp_path: Path
) -> None:
    price: dict[str, Any] = {"price": {"input": "1"}}
    for detail, kept in (
        ({**price, "agreement": "x" * 3000}, price),
        ({"price": {"input": "1" * 3000}, "served": "gpt"}, None),
    ):
        recorder.admitted(Admitted(replace(hold(1, 90), detail=detail), NAME, 0.0, None))
        begun = left(tmp_path)[UUID(int=1)].begun
        assert (begun.amount_nano_usd, begun.detail) == (90, kept)
        slot = recorder.delivers(UUID(int=1), {**SO_FAR, "detail": detail})
        assert slot is not None
        recorder.counts(slot, 40)
        found = left(tmp_path)[UUID(int=1)]
        assert found.what.delivered == {**SO_FAR, "detail": kept or {"served": "gpt"}}
        assert (found.output_tokens, found.begun.amount_nano_usd) == (40, 90)


def test_what_finds_no_room_is_counted(recorder: Recorder, tmp_path: Path) -> None:
    for number in range(1, 6):
        end(recorder, number, 1)
    recorder.forget([settle(1, 9)])
    recorder.forget([settle(6, 9)])
    assert set(left(tmp_path)) == {UUID(int=number) for number in (2, 3, 4)}


def test_half_a_character_is_no_obstacle(recorder: Recorder, tmp_path: Path) -> None:
    for detail in ({"n": 2**70}, encode_detail({"n": 2**70})):
        end(recorder, 1, 7, error_message="half \ud800", detail=detail)
        found = left(tmp_path)[UUID(int=1)].what.outcome
        assert (found.cost_nano_usd, found.detail) == (7, {"n": 2**70})


@logs("recorder_unavailable")
@pytest.mark.parametrize("failing", ["fallocate", "flock", "folder"])
def test_gateway_that_cannot_have_its_file_runs_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    if failing == "fallocate":
        monkeypatch.setattr(os, "posix_fallocate", full)
    elif failing == "flock":
        monkeypatch.setattr(fcntl, "flock", full)
    else:
        (tmp_path / FOLDER).write_text("a file, no folder")
    metrics = Metrics()
    one = Recorder(metrics)
    assert not one.open(tmp_path, NAME)
    end(one, 1, 7)
    assert one.delivers(UUID(int=1), SO_FAR) is None
    one.forget([settle(1, 7)])
    one.close()
    assert left_behind(tmp_path) == []
    assert b"gw_recorder_up 0" in metrics.render("")[0]
