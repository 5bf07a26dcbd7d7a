"""`gw check-config --probe`: each channel is asked once, over a real connection"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gw.admin.channel_probe import models_request
from gw.cli.main import main
from tests.support.rows import cases
from tests.support.specs import make_channel

KEY = "key-of-the-channel"
LIST = {"object": "list", "data": [{"id": "gpt-5"}, {"id": "gpt-5-mini"}, {"id": 5}, "x"]}
# What is answered to each path: a status and a body.
RESPONSES: dict[str, tuple[int, Any]] = {
    "/good/v1/models": (200, LIST),
    "/gemini/v1beta/models": (200, {"models": [{"name": "models/gemini-3"}]}),
    "/refused/v1/models": (401, {"error": {"message": f"Incorrect API key: {KEY}"}}),
    "/odd/v1/models": (200, "no list"),
}


@pytest.fixture
def upstream() -> Iterator[ThreadingHTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heads.append((self.path, dict(self.headers)))
            status, body = RESPONSES.get(self.path.partition("?")[0], (404, {}))
            sent = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            pass

    heads: list[tuple[str, dict[str, str]]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.heads = heads  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def written(folder: Path, port: int, *channels: str) -> str:
    """A file of channels, each its id and further keys in YAML, at a path of its own id."""
    lines = [
        f"  - {{id: {name}, base_url: 'http://127.0.0.1:{port}/{name}', api_key: {KEY}, {more}}}"
        for name, _, more in (one.partition(" ") for one in channels)
    ]
    names = [one.partition(" ")[0] for one in channels]
    models = [
        f"  - {{id: {model}, channels: [{names[0]}], price: {{input: 1, output: 1}}}}"
        for model in ("gpt-5", "gpt-9")
    ]
    path = folder / "gw.yaml"
    path.write_text("\n".join(["channels:", *lines, "models:", *models, ""]))
    return str(path)


def probed(
    capsys: pytest.CaptureFixture[str], path: str, *, code: int
) -> dict[str, dict[str, Any]]:
    assert main(["check-config", "--probe", "--json", "--config", path]) == code
    shown = capsys.readouterr().out
    assert KEY not in shown
    record = json.loads(shown)
    assert record["ok"] is (code == 0)
    return {one["channel"]: one for one in record["probes"]}


def test_channel_that_takes_its_key_says_how_many_models_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], upstream: ThreadingHTTPServer
) -> None:
    path = written(
        tmp_path,
        upstream.server_port,
        "good protocols: [chat], headers: {X-Team: a}",
        "gemini protocols: [native], auth: 'query:key'",
    )
    found = probed(capsys, path, code=0)
    assert found["good"] == {
        "channel": "good",
        "ok": True,
        "status": 200,
        "message": "2 models",
        "models": 2,
        "not_listed": ["gpt-9"],
    }
    assert found["gemini"]["models"] == 1
    heads = dict(upstream.heads)  # type: ignore[attr-defined]
    assert len(heads) == 2
    good = heads["/good/v1/models"]
    assert (good["Authorization"], good["X-Team"]) == (f"Bearer {KEY}", "a")
    assert f"/gemini/v1beta/models?key={KEY}" in heads


def test_what_does_not_take_its_key_is_reported_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], upstream: ThreadingHTTPServer
) -> None:
    path = written(
        tmp_path,
        upstream.server_port,
        *("refused protocols: [chat]", "none protocols: [messages]", "odd protocols: [chat]"),
    )
    found = probed(capsys, path, code=1)
    assert (found["refused"]["ok"], found["refused"]["status"]) == (False, 401)
    assert found["refused"]["message"] == "Incorrect API key: [redacted]"
    assert (found["none"]["status"], found["none"]["models"]) == (404, None)
    assert "no list of models" in found["none"]["message"]
    assert (found["odd"]["status"], found["odd"]["models"]) == (200, None)


def test_address_where_nobody_listens_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = probed(capsys, written(tmp_path, 1, "gone protocols: [chat]"), code=1)
    assert (found["gone"]["ok"], found["gone"]["status"]) == (False, None)
    assert "127.0.0.1" not in found["gone"]["message"]


def test_people_get_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], upstream: ThreadingHTTPServer
) -> None:
    path = written(tmp_path, upstream.server_port, "good protocols: [chat]")
    assert main(["check-config", "--probe", "--config", path]) == 0
    assert "good     yes  200     2 models  gpt-9" in capsys.readouterr().out


@cases(
    "kind, base_url, url",
    ("openai", "https://api.openai.com", "https://api.openai.com/v1/models"),
    ("groq", "https://api.groq.com/openai", "https://api.groq.com/openai/v1/models"),
    ("zhipu", "https://open.bigmodel.cn", "https://open.bigmodel.cn/api/paas/v4/models"),
)
def test_kind_has_its_list_where_it_is_documented(kind: str, base_url: str, url: str) -> None:
    assert models_request(make_channel("one", kind=kind, base_url=base_url)).url == url


def test_messages_channel_is_probed_in_its_own_way() -> None:
    spec = make_channel("one", protocols=frozenset({"messages"}), api_key=KEY)
    assert dict(models_request(spec).headers) == {
        "x-api-key": KEY,
        "anthropic-version": "2023-06-01",
        "Accept": "application/json",
    }
