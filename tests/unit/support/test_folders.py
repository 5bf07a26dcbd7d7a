"""Where the folders of servers lie, whatever the machine has for temporary files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.support.folders import PARENT_BYTES_MAX, parent_folder


@pytest.mark.parametrize(
    ("name", "mode", "serves"),
    [
        ("t", 0o711, True),
        ("t", 0o700, False),  # another user's servers could not enter
        ("a b", 0o711, False),
        ("l" * PARENT_BYTES_MAX, 0o711, False),
    ],
)
def test_folders_lie_where_servers_can_work(
    name: str, mode: int, serves: bool, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = data_dir / name
    wanted.mkdir()
    wanted.chmod(mode)
    monkeypatch.setattr(tempfile, "tempdir", str(wanted))
    assert parent_folder() == (wanted if serves else Path("/tmp"))
