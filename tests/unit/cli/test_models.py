"""`gw models`, `gw matrix`, `gw probe`."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gw.admin.channel_probe import models_request
from gw.cli import files
from gw.cli.failures import CommandRefused
from gw.cli.main import main
from tests.support.rows import cases
from tests.support.specs import make_channel
from tests.unit.price_list.lists import GROQ, HEAD, UNPRICED

CONFIG = """\
# ours
channels:
  - {id: groq-1, kind: groq, api_key: "${MODELS_TEST_KEY}"}
  - {id: openai-1, kind: openai, api_key: "${MODELS_TEST_KEY}"}
models: []
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GW_CONFIG", raising=False)
    monkeypatch.setenv("MODELS_TEST_KEY", "key-of-tests")
    path = tmp_path / "gw.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def prices(tmp_path: Path) -> str:
    rows = [f"{row[:-1]}, source: page}}" for row in (GROQ, UNPRICED)]
    path = tmp_path / "prices.yaml"
    path.write_text(HEAD + "".join(f"  - {row}\n" for row in rows))
    return str(path)


def done(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == code
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    return record


def test_import_writes_once_and_keeps_rights_and_links(
    config: Path, prices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    real = config.with_name("real.yaml")
    config.rename(real)
    config.symlink_to(real)
    real.chmod(0o640)
    record = done(capsys, "models", "import", prices)
    assert (record["written"], record["added"], record["unpriced"]) == (True, ["oss"], ["gpt-new"])
    assert record["dated"] == "2026-11-22"
    assert config.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    text = real.read_text()
    assert text.startswith("# ours\n")
    assert "key-of-tests" not in text
    assert done(capsys, "check-config")["models"] == 1
    assert done(capsys, "models", "import", prices)["written"] is False
    assert real.read_text() == text
    assert sorted(os.listdir(real.parent)) == ["gw.yaml", "prices.yaml", "real.yaml"]


def test_dry_run_and_diff_write_nothing(
    config: Path, prices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record = done(capsys, "models", "import", prices, "--dry-run")
    assert (record["written"], record["added"]) == (False, ["oss"])
    assert done(capsys, "models", "diff", prices)["new"] == ["oss"]
    assert config.read_text() == CONFIG


def test_diff_of_the_bundled_list_is_empty_after_an_import(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done(capsys, "models", "import")
    record = done(capsys, "models", "diff")
    assert (record["changes"], record["new"], record["not_listed"]) == ([], [], [])
    assert main(["models", "diff"]) == 0
    assert capsys.readouterr().out.startswith("no price differs\n")


def test_diff_shows_a_price_of_another_list(
    config: Path, prices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done(capsys, "models", "import", prices)
    newer = Path(prices).with_name("newer.yaml")
    newer.write_text(Path(prices).read_text().replace("input: 0.15", "input: 0.4"))
    record = done(capsys, "models", "diff", str(newer))
    assert record["changes"] == [
        {
            "model": "oss",
            "price": "input",
            "now": "0.15",
            "list": "0.4",
            "difference": "0.25",
            "dated": "2026-10-03",
        }
    ]
    record = done(capsys, "models", "import", str(newer))
    assert (record["written"], record["replaced"]) == (False, [])
    record = done(capsys, "models", "import", str(newer), "--apply")
    assert record["replaced"] == ["oss"]
    assert done(capsys, "models", "diff", str(newer))["changes"] == []


def test_price_that_moves_tenfold_asks_for_a_word(
    config: Path, prices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done(capsys, "models", "import", prices)
    text = config.read_text()
    newer = Path(prices).with_name("newer.yaml")
    newer.write_text(Path(prices).read_text().replace("input: 0.15", "input: 1.51"))
    error = done(capsys, "models", "import", str(newer), "--apply", code=1)["error"]
    assert error["code"] == "price_moved"
    assert "oss: input from 0.15 to 1.51. If that is meant, --accept oss" in error["message"]
    assert config.read_text() == text
    # Without --apply no price that is there changes, and of others nothing is asked.
    assert done(capsys, "models", "import", str(newer))["written"] is False
    done(capsys, "models", "import", str(newer), "--apply", "--accept", "else", code=1)
    record = done(capsys, "models", "import", str(newer), "--apply", "--accept", "oss")
    assert (record["replaced"], record["needs_restart"]) == (["oss"], ["oss"])
    assert config.read_text() == text.replace('input: "0.15"', 'input: "1.51"')
    # A reload takes ten times what a price was.
    config.write_text(text.replace('input: "0.15"', 'input: "0.151"'))
    record = done(capsys, "models", "import", str(newer), "--apply", "--accept", "oss")
    assert "needs_restart" not in record
    assert done(capsys, "check-config")["models"] == 1


def test_file_that_a_gateway_would_refuse_is_not_put_in_place(
    config: Path, prices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done(capsys, "models", "import", prices)
    text = config.read_text().replace("models:", "models:\n  - {id: own, channels: [groq-1]}")
    text = text.replace('input: "0.15"', 'input: "0.2"')
    config.write_text(text)
    error = done(capsys, "models", "import", prices, "--apply", code=2)["error"]
    paths = [one["path"] for one in error["faults"]]
    assert paths == ["models[0].price.input", "models[0].price.output"]
    assert config.read_text() == text


def test_list_is_named_once(prices: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = done(capsys, "models", "diff", prices, "--from", prices, code=2)["error"]
    assert error["message"] == "one list is read: name it once"


@pytest.mark.parametrize("verb", ["import", "diff"])
def test_bad_list_is_told_by_line_and_changes_nothing(
    verb: str, config: Path, prices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Path(prices)
    bad.write_text(bad.read_text().replace("input: 0.15", "input: cheap"))
    error = done(capsys, "models", verb, prices, code=2)["error"]
    assert error["code"] == "invalid_configuration"
    assert [(one["line"], one["path"]) for one in error["faults"]] == [(6, "models[0].price.input")]
    error = done(capsys, "models", verb, "nowhere.yaml", code=2)["error"]
    assert [one["file"] for one in error["faults"]] == ["nowhere.yaml"]
    assert config.read_text() == CONFIG


def test_configuration_with_faults_is_told_and_not_written(
    config: Path, prices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CONFIG + "drain: 3\n"
    config.write_text(text)
    error = done(capsys, "models", "import", prices, code=2)["error"]
    assert [one["path"] for one in error["faults"]] == ["drain"]
    assert config.read_text() == text


def test_file_that_was_changed_meanwhile_is_not_overwritten(config: Path) -> None:
    with pytest.raises(CommandRefused, match="changed meanwhile"):
        files.replace_file(config, "new", before="what it was")
    assert config.read_text() == CONFIG


def test_write_that_fails_leaves_nothing_behind(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CommandRefused, match="No space left"):
        files.replace_file(config, "new", before=CONFIG)
    assert os.listdir(config.parent) == ["gw.yaml"]
    assert config.read_text() == CONFIG


def test_secrets_are_for_their_owner_alone(config: Path) -> None:
    path = config.with_name("gw.env")
    files.write_secrets(path, "A='b'\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "A='b'\n"


# --- `gw matrix`: what it prints of a configuration, for people, programs and documents ---

FILE = """\
translations: [chat_to_messages]
channels:
  - id: a
    base_url: https://a.example
    api_key: k
    protocols: [chat, responses]
    tools: [web_search]
  - {id: b, base_url: "https://b.example", api_key: k, protocols: [messages]}
models:
  - {id: one, channels: [a], price: {input: 1, output: 2}}
  - {id: two, channels: [a, b], price: {input: 1, output: 2}}
  - {id: uno, channels: [a], price: {input: 1, output: 2}}
"""
T1 = "openai_chat_to_anthropic_messages"


@pytest.fixture
def matrix_config(tmp_path: Path) -> str:
    path = tmp_path / "gw.yaml"
    path.write_text(FILE)
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["matrix", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_people_get_a_table_and_the_models_of_its_rows(
    matrix_config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "--config", matrix_config).splitlines()
    assert lines[0].split() == [
        *("row", "chat_completions", "messages", "responses", "native_content"),
        *("built-in", "tools"),
    ]
    # Of the two that the model has no channel for, each has a translation that is not switched on.
    assert "no channel (messages_to_chat or messages_to_responses is off)" in lines[1]
    assert "no channel (native_to_chat or native_to_responses is off)" in lines[1]
    assert lines[1].endswith("web_search")
    assert f"native, else translated: {T1}" in lines[2]
    assert lines[2].endswith("web_search (chat_completions, responses)")
    assert lines[-2:] == ["1  one, uno", "2  two"]


def test_programs_get_one_object(matrix_config: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(said(capsys, "--config", matrix_config, "--json"))
    assert record["file"] == matrix_config
    assert record["translations"] == ["chat_to_messages"]
    first, second = record["rows"]
    assert first["models"] == ["one", "uno"]
    assert first["protocols"]["native_content"] == {
        "served": "no_channel",
        "translations": [],
        "switched_off": ["native_to_chat", "native_to_responses"],
        "tools": [],
    }
    assert second["protocols"]["chat_completions"] == {
        "served": "native",
        "translations": [T1],
        "switched_off": [],
        "tools": ["web_search"],
    }


def test_documents_get_a_markdown_table(
    matrix_config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "--config", matrix_config, "--markdown").splitlines()
    assert lines[0].startswith("| Models | chat_completions |")
    assert lines[1] == "| --- | --- | --- | --- | --- | --- |"
    assert lines[2] == "| `one`, `uno` | native | no channel | native | no channel | web_search |"
    assert f"native, else translated: `{T1}`" in lines[3]


def test_faulty_configuration_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gw.yaml"
    path.write_text("models: [{id: m, channels: [gone]}]\n")
    assert main(["matrix", "--config", str(path)]) == 2
    assert "gone" in capsys.readouterr().err


# --- `gw check-config --probe`: each channel is asked once, over a real connection ---

KEY = "key-of-the-channel"
LIST = {"object": "list", "data": [{"id": "gpt-5"}, {"id": "gpt-5-mini"}, {"id": 5}, "x"]}
# What is answered to each path: a status and a body.
ANSWERS: dict[str, tuple[int, Any]] = {
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
            status, body = ANSWERS.get(self.path.partition("?")[0], (404, {}))
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


def test_what_does_not_take_its_key_is_told_without_it(
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


def test_address_where_nobody_listens_is_told(
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


def test_messages_channel_is_asked_in_its_own_way() -> None:
    spec = make_channel("one", protocols=frozenset({"messages"}), api_key=KEY)
    assert dict(models_request(spec).headers) == {
        "x-api-key": KEY,
        "anthropic-version": "2023-06-01",
        "Accept": "application/json",
    }
