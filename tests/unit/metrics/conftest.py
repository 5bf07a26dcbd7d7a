"""Fixtures of this folder: `world` has metrics of its own, `lines` what was logged as JSON."""

import logging
from collections.abc import Iterator

import pytest

from metrics.logs import configure
from tests.unit.metrics.worlds import Lines, World


@pytest.fixture
def world() -> World:
    """Return fresh metrics."""
    return World()


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Give the process its logging back after the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def lines(restored_logging: None) -> Lines:
    lines = Lines()
    configure(lines.stream)
    return lines
