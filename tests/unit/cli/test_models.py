"""`gw models`."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gw.cli import files
from gw.cli.failures import CommandRefused
from gw.cli.main import main
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
def test_bad_list_is_reported_by_line_and_changes_nothing(
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


def test_configuration_with_faults_is_reported_and_not_written(
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
