"""The watch over the log, and folders of tests."""

import logging
from collections.abc import Iterator

import pytest

from tests.support.logs import LogWatch, logs

LOG = logging.getLogger("tests.watched")


@pytest.fixture
def watch() -> Iterator[LogWatch]:
    """A second watch, on one logger that the watch over this test does not see."""
    watch = LogWatch()
    LOG.addHandler(watch)
    LOG.propagate = False
    try:
        yield watch
    finally:
        LOG.propagate = True
        LOG.removeHandler(watch)


def test_unexpected_warning_is_a_fault_with_its_exception(watch: LogWatch) -> None:
    try:
        raise KeyError("lost")
    except KeyError:
        LOG.warning("it %s", "broke", exc_info=True)
    assert watch.faults() == ["unexpected log: WARNING tests.watched:  it broke (KeyError('lost'))"]


def test_information_is_no_fault(watch: LogWatch) -> None:
    LOG.setLevel(logging.INFO)
    LOG.info("all is well")
    assert watch.faults() == []


@pytest.mark.parametrize("name", ["channel_opened", "tests.watched", "a channel opened"])
def test_record_is_expected_by_action_logger_or_message(watch: LogWatch, name: str) -> None:
    watch.expect(name)
    LOG.error("a channel %s", "opened", extra={"action": "channel_opened"})
    assert watch.faults() == []


def test_expected_record_that_stays_away_is_a_fault(watch: LogWatch) -> None:
    watch.expect("channel_opened")
    watch.expect("channel_closed", required=False)
    assert watch.faults() == ["expected log did not come: channel_opened"]


@logs("allowed")
@logs("marked")
def test_fixture_and_mark_allow_records_in_a_test() -> None:
    LOG.warning("allowed")
    LOG.warning("marked")
