"""`gw demo` as its user sees it: paste each printed line, look at the balance, press Ctrl-C."""

import argparse
import io
import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import av
import pytest
from av.container import InputContainer

from loadtests.rig.client import fetch
from loadtests.rig.processes import gw
from loadtests.rig.waiting import PATIENCE_SECONDS, until
from tests.support.demo import running_demo

pytestmark = pytest.mark.long


def test_every_printed_line_works_and_a_second_demo_finds_the_same_key(data_dir: Path) -> None:
    config = data_dir / "demo" / "gw.yaml"
    keys, log = [], data_dir / "demo.log"
    for _ in range(2):
        began = int(time.time())
        with running_demo(config, log) as (demo, text):
            # Its own key, and that of the agent.
            keys.append(sorted(set(re.findall(r"sk-platform-[0-9a-f]{64}", text))))
            assert len(keys[-1]) == 2
            for command in text.replace("\\\n", " ").splitlines():
                if command.startswith("curl "):
                    check_line(command)
            check_files(text, began)
            (agent,) = gw(config, "agent", "list")["agents"]
            assert gw(config, "agent", "usage", agent["id"])["requests"] == len(keys)
            (base,) = gw(config, "kb", "list", "--account", agent["account_id"])["kbs"]
            assert f"{base['pages']} pages tell" in text
            commands = re.findall(r"^\S.* --config .*", text, re.MULTILINE)
            assert len(commands) == 2
            for command in commands:  # with nothing on the path
                subprocess.run(shlex.split(command), env={}, check=True, stdout=subprocess.DEVNULL)
            assert gw(config, "ledger", "verify")["ok"]
            demo.send_signal(signal.SIGINT)
            assert demo.wait(timeout=PATIENCE_SECONDS) == 0
            check_terminal(log.read_text().splitlines())
    assert keys[0] == keys[1]


def check_terminal(lines: list[str]) -> None:
    """The terminal is for what was printed; only of a machine that stood still it says more."""
    ready, *rest = [line for line in lines if not line.startswith("{")]
    assert ready.startswith("ready "), lines
    assert not rest, lines
    actions = {json.loads(line)["action"] for line in lines if line.startswith("{")}
    assert actions <= {"loop_lagged", "loop_stuck", "overload_began", "overload_ended"}, lines


def check_files(text: str, since: float) -> None:
    """What was made plays, once it is copied: every film, song and recording that is listed."""
    lists = [shlex.split(line) for line in text.splitlines() if line.startswith("curl 'http")]
    for command in lists:
        if "/generations" in command[1] or "/audio/speech" in command[1]:

            def copied(url: str = command[1], header: str = command[3]) -> list[str]:
                name, value = header.split(": ", 1)
                tasks = fetch(url, headers={name: value}).json["data"]
                links = [link for one in tasks if one["created_at"] >= since for link in of(one)]
                return links if all("/v1/media/" in link for link in links) else []

            for link in until(copied, what=f"the files of all that {command[1]} lists"):
                check_file(fetch(link).body)


def of(task: dict[str, Any]) -> list[str]:
    """The links of a task; one that says nothing while there are none."""
    made = task.get("tracks", [task])
    return [one.get("video_url") or one.get("audio_url") or "" for one in made]


def check_file(data: bytes) -> None:
    """A player opens it."""
    with av.open(io.BytesIO(data)) as file:
        assert isinstance(file, InputContainer)
        assert next(file.decode())


def check_line(command: str) -> None:
    """Do what the line does; a machine may have no curl."""
    options = argparse.ArgumentParser()
    options.add_argument("url")
    options.add_argument("-N", action="store_true")
    options.add_argument("-H", action="append", dest="headers")
    options.add_argument("-d", dest="data")
    options.add_argument("-o", dest="file")
    requested = options.parse_args(shlex.split(command)[1:])
    headers = dict(header.split(": ", 1) for header in requested.headers)
    data = requested.data.encode() if requested.data else None
    response = fetch(requested.url, "POST" if data else "GET", data, headers=headers)
    assert response.status == 200, response
    body = response.body
    if requested.file is not None:
        check_file(body)
        return
    text = body.decode()
    if "data: " in text:
        assert '"model"' in text or "finishReason" in text
        return
    value = json.loads(text)
    assert isinstance(value, dict)
    if requested.url.endswith("/mcp"):
        # The demo's own base is there to be found in.
        assert value["result"].get("tools") or value["result"]["structuredContent"]["total_hits"]
