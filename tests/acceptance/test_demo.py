"""`gw demo` as its user sees it: paste each printed line, look at the balance, press Ctrl-C."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.support.processes import gw
from tests.support.waiting import PATIENCE_SECONDS


def test_every_printed_line_works_and_a_second_demo_finds_the_same_key(data_dir: Path) -> None:
    config = data_dir / "demo" / "gw.yaml"
    keys, log = [], data_dir / "demo.log"
    for _ in range(2):
        with log.open("w") as told:
            demo = subprocess.Popen(
                [sys.executable, "-m", "gw", "demo", "--config", str(config)],
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
            )
        assert demo.stdout is not None
        try:
            text = ""
            while "gw ledger verify" not in text:
                line = demo.stdout.readline()
                assert line, log.read_text()
                text += line
            keys.append(text.partition("Key ")[2].split()[0])
            for command in text.replace("\\\n", " ").splitlines():
                if command.startswith("curl "):
                    check_line(command)
            assert gw(config, "ledger", "verify")["ok"]
            demo.send_signal(signal.SIGINT)
            assert demo.wait(timeout=PATIENCE_SECONDS) == 0
            # The terminal is for what was printed.
            assert [line[:6] for line in log.read_text().splitlines()] == ["ready "]
        finally:
            demo.kill()
            demo.wait()
            demo.stdout.close()
    assert keys[0] == keys[1]


def check_line(command: str) -> None:
    """Do what the line does; a machine may have no curl."""
    options = argparse.ArgumentParser()
    options.add_argument("url")
    options.add_argument("-N", action="store_true")
    options.add_argument("-H", action="append", dest="headers")
    options.add_argument("-d", dest="data")
    asked = options.parse_args(shlex.split(command)[1:])
    request = urllib.request.Request(
        asked.url,
        data=asked.data.encode() if asked.data else None,
        headers=dict(header.split(": ", 1) for header in asked.headers),
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        text = answer.read().decode()
    if "data: " in text:
        assert '"model"' in text or "finishReason" in text
    else:
        assert isinstance(json.loads(text), dict)
