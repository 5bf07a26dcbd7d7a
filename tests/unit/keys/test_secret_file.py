"""The generated secret: made once, private, whatever happens at the same time"""

import subprocess
import sys
from pathlib import Path

import pytest

from gw.keys.secret_file import SecretFault, read_or_make

READ = "import sys, pathlib; sys.stdin.read(); " + (
    "from gw.keys.secret import read_or_make; print(read_or_make(pathlib.Path(sys.argv[1])))"
)


def test_secret_is_made_once_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "var"
    made = read_or_make(folder)
    assert len(made) == 64
    assert read_or_make(folder) == made
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_processes_that_start_together_get_one_secret(tmp_path: Path) -> None:
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READ, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for reader in readers:  # all have started: now let them go
        assert reader.stdin is not None
        reader.stdin.close()
        reader.stdin = None
    outputs = {reader.communicate(timeout=60)[0] for reader in readers}
    assert len(outputs) == 1
    assert len(outputs.pop().strip()) == 64
    assert len(list(tmp_path.iterdir())) == 1


def test_secret_is_read_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine\r\n")
    assert read_or_make(tmp_path) == "mine"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe\xff", "is not text")],
)
def test_spoilt_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(SecretFault, match=reason):
        read_or_make(tmp_path)


def test_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SecretFault, match=r"file/secret cannot be read"):
        read_or_make(tmp_path / "file")
    (tmp_path / "secret").mkdir()
    with pytest.raises(SecretFault, match="cannot be read"):
        read_or_make(tmp_path)
