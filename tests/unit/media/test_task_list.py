"""The query of a list of tasks."""

import pytest

from channels.errors import InvalidRequest
from gw.media.task_list import MUSIC, SPEECH, VIDEOS, ListKind, TaskListQuery, read_list
from tests.support.rows import cases

EVERYTHING = TaskListQuery(limit=30, states=frozenset(), before=None)
ID = "vid_" + "0a" * 16


@cases("query", {}, {"limit": "", "status": "", "before": ""}, {"x": "1"})
def test_nothing_requested_is_everything(query: dict[str, str]) -> None:
    assert read_list(query, VIDEOS) == EVERYTHING


@cases(
    "text, limit", ("1", 1), ("30", 30), ("100", 100), ("101", 100), ("0099", 99), ("9" * 500, 100)
)
def test_limit(text: str, limit: int) -> None:
    assert read_list({"limit": text}, VIDEOS).limit == limit


@cases("text", "0", "00", "-1", "1.5", "+5", "ten", " 5", "١", "0x5", "1e2")
def test_limit_that_is_none(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_list({"limit": text}, VIDEOS)
    assert caught.value.param == "limit"


@cases(
    "kind, text, states",
    (VIDEOS, "queued", {"queued"}),
    (VIDEOS, "queued, running,", {"queued", "running"}),
    (VIDEOS, "all", set()),
    (VIDEOS, "failed,all", set()),
    (VIDEOS, "queued,running,succeeded,failed,expired,cancelled", set(VIDEOS.states)),
    (MUSIC, "processing,cancelled", {"processing", "cancelled"}),
    (SPEECH, "pending", {"pending"}),
    (SPEECH, ",", set()),
)
def test_states(kind: ListKind, text: str, states: set[str]) -> None:
    assert read_list({"status": text}, kind).states == states


@cases(
    "kind, text",
    (VIDEOS, "processing"),
    (VIDEOS, "Queued"),
    (VIDEOS, "all,odd"),
    (MUSIC, "queued"),
    (SPEECH, "expired"),
    (SPEECH, "\x00"),
    (SPEECH, "x" * 10_000),
)
def test_state_of_no_list(kind: ListKind, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_list({"status": text}, kind)
    assert caught.value.param == "status"
    assert len(caught.value.message) < 300


def test_before() -> None:
    assert read_list({"before": ID}, VIDEOS).before == ID


@cases("text", "5", ID[:-1], ID.upper(), ID + "0", ID.replace("vid", "mus"))
def test_before_that_is_no_task_of_the_list(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_list({"before": text}, VIDEOS)
    assert caught.value.param == "before"
