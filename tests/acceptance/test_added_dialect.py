"""A dialect that is added is served by its folder and the rows of its family and endpoint alone.

The gateway of this module runs from a copy of the product, into which the invented dialect of
`telegraph/` is put as `.github/CONTRIBUTING.md` says.
"""

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.deployment import Deployment, channel, model, shared_deployment
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.tenants import Tenant
from tests.acceptance.telegraph import dialect

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
FOLDER = Path(dialect.__file__).parent
PACKAGES = ("gw", "actors", "channels", "metrics")
# All that is written outside of the folder, and behind which line.
IMPORT = "from gw.api.chat.dialect_handler import DialectHandler\n"
ROW = """\
        Endpoint(
            "telegraph",
            r"/v1/telegraph",
            _POST,
            DialectHandler,
            family=families.TELEGRAPH,
            describes=chat.TELEGRAM,
            **_CHAT,
        ),
"""
DESCRIPTION = """
TELEGRAM = (
    Operation(
        name="send_telegram",
        tag=TAG,
        method="POST",
        summary="Chat by telegraph.",
        body=({"type": "object", "description": "A telegram."},),
        examples={"a telegram": {"text": "Hello STOP"}},
        responses=answers({"type": "object"}, "The response."),
        timeout="chat",
    ),
)
"""
WAYS = """\
    Translation("T13", "telegraph", _CHAT, "telegraph_to_chat", "telegraph_to_chat"),
    Translation("T10", _CHAT, "telegraph", "chat_to_telegraph", "chat_to_telegraph"),
"""
ADDED = {
    "channels/families.py": [
        (
            '"responses", dialect="responses", streams=True, end_users=_END_USERS\n)\n',
            (FOLDER / "family.py").read_text().partition("import family\n\n")[2],
        ),
        ("_ROWS = (\n", "    TELEGRAPH,\n"),
    ],
    "gw/app.py": [("        # Chat\n", ROW), ("from typing import TypedDict\n", IMPORT)],
    "gw/api/reference/chat.py": [('TAG = "Chat"\n', DESCRIPTION)],
    "channels/translation/paths.py": [("_ROWS = (\n", WAYS)],
}
SENT = [
    b'data: {"text":"Hel"}\n\n',
    b'data: {"text":"lo"}\n\n',
    b'data: {"stop":true,"counts":[7,4]}\n\n',
]
REQUESTED = {"text": "Hello STOP", "stream": True, "words": 50}


def add_dialect(tree: Path) -> None:
    """Put the dialect into a copy of the product."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    folder = tree / "channels/dialects/telegraph"
    folder.mkdir()
    for path in FOLDER.glob("*.py"):
        if path.name != "family.py":
            text = path.read_text().replace(f"{dialect.__package__}.family", "channels.families")
            text = text.replace(f"{dialect.__package__}", "channels.dialects.telegraph")
            (folder / path.name).write_text(text)
    for name, additions in ADDED.items():
        text = (tree / name).read_text()
        for line, more in additions:
            assert text.count(line) == 1, (name, line)
            text = text.replace(line, line + more)
        (tree / name).write_text(text)


class Wire(BaseHTTPRequestHandler):
    """The other end of the telegraph's channel."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"".join(SENT))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""


@pytest.fixture(scope="module")
def wire() -> Iterator[str]:
    """Its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Wire) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, wire: str) -> Iterator[Deployment]:
    """A deployment whose every process, the command line too, runs from the copy."""
    settings: dict[str, Any] = {
        "translations": ["telegraph_to_chat", "chat_to_telegraph"],
        "channels": [channel("wire", protocols=["telegraph"], base_url=wire), channel("one")],
        "models": [model("morse", "wire"), model("sim-model", "one")],
    }
    with temporary_folder() as tree, pytest.MonkeyPatch.context() as patch:
        add_dialect(tree)
        patch.setenv("PYTHONPATH", str(tree))
        patch.setenv("PYTHONSAFEPATH", "1")
        with shared_deployment(postgres, **settings) as built:
            yield built


def test_telegram_passes_through_and_is_charged_by_its_own_meter(
    h: Deployment, tenant: Tenant
) -> None:
    reply = tenant.client.send("POST", "/v1/telegraph", {"model": "morse", **REQUESTED})
    assert (reply.status, reply.body) == (200, b"".join(SENT))
    row = h.row(reply.trace)
    assert (row["protocol"], row["status"]) == ("telegraph", "success")
    assert (row["input_tokens"], row["output_tokens"]) == (7, 4)
    assert row["cost_nano_usd"] == 7 * 1000 + 4 * 10_000


def test_telegram_reaches_a_channel_of_another_protocol(h: Deployment, tenant: Tenant) -> None:
    body = {"model": "sim-model", "text": "Hello", "words": 50}
    whole = tenant.client.send("POST", "/v1/telegraph", body)
    assert whole.headers["x-protocol-translation"] == "telegraph_to_chat"
    result = whole.json
    row = h.row(whole.trace)
    assert result["text"]
    assert result["stop"]
    assert result["counts"] == [row["input_tokens"], row["output_tokens"]]
    stream = tenant.client.send("POST", "/v1/telegraph", {**body, "stream": True})
    events = [json.loads(event) for event in stream.events]
    assert "".join(event.get("text", "") for event in events) == result["text"]
    assert events[-1] == {"stop": True, "counts": result["counts"]}


def test_client_of_another_protocol_reaches_the_telegraph(h: Deployment, tenant: Tenant) -> None:
    reply = tenant.client.chat(model="morse", stream=True)
    assert reply.headers["x-protocol-translation"] == "chat_to_telegraph"
    assert reply.text == "Hello"
    assert reply.is_complete
    assert h.row(reply.trace)["output_tokens"] == 4


def test_what_is_no_telegram_is_refused(tenant: Tenant) -> None:
    reply = tenant.client.send("POST", "/v1/telegraph", {"model": "morse", "text": 5})
    assert reply.refusal == (400, "invalid_request_error", "invalid_request")
    assert "text" in reply.error["message"]


def test_configuration_matrix_and_catalog_know_it(h: Deployment, tenant: Tenant) -> None:
    matrix = {row["models"][0]: row["protocols"] for row in h.gw("matrix")["rows"]}
    assert matrix["morse"]["telegraph"]["served"] == "native"
    assert matrix["sim-model"]["telegraph"]["translations"] == ["telegraph_to_chat"]
    catalog = tenant.client.get("/api/v1/models/public").json["models"]
    assert {one["id"]: one["supported_protocols"] for one in catalog}["morse"] == ["telegraph"]
