"""How a run of users is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtests.locust.__main__ import parse

HOST = "--host http://127.0.0.1:8080"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and a configuration in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("keys.txt").write_text("one\ntwo\n", encoding="utf-8")
    Path("none.txt").touch()
    Path("gw.yaml").touch()


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (f"{HOST}", "needs keys"),
        (f"{HOST} --keys none.txt --config gw.yaml", "needs keys"),
        (f"{HOST} --keys keys.txt", "its ledger is verified"),
        ("--host http://gw.example --keys keys.txt --config gw.yaml", "not this machine"),
        ("--config gw.yaml", "is for a gateway given by --host"),
        ("--keys gone.txt", "is for a gateway given by --host"),
        (f"{HOST} --keys gone.txt", "there is no file"),
        (f"{HOST} --keys keys.txt --config gw.yaml --families chat music", "need the simulator"),
        (f"{HOST} --keys keys.txt --config gw.yaml --families agents", "or --agent-keys"),
        ("--families tunes", "invalid choice"),
    ],
)
def test_what_makes_no_sense_is_refused(
    wrong: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parse(wrong.split())
    assert left.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_a_gateway_that_runs_is_verified_unless_it_is_elsewhere() -> None:
    options, rest = parse(f"{HOST} --keys keys.txt --config gw.yaml --csv out".split())
    assert (options.config, rest) == (Path("gw.yaml"), ["--csv", "out"])
    parse(["--host", "http://gw.example", "--keys", "keys.txt", "--remote"])
    parse([])
