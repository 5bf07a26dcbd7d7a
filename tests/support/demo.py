"""`gw demo` as a process, from what it prints until it ends."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running_demo(config: Path, log: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, once it has printed everything, and what it printed; `log`: its terminal."""
    with log.open("w") as terminal:
        process = subprocess.Popen(
            [sys.executable, "-m", "gw", "demo", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
        )
    assert process.stdout is not None
    try:
        text = ""
        while " ledger verify" not in text:
            line = process.stdout.readline()
            assert line, log.read_text()
            text += line
        yield process, text
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
