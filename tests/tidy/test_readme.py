"""What the documents show of a command is what the command says."""

from __future__ import annotations

import pytest

from gw.cli.main import main
from tests.tidy.files import ROOT


def test_matrix_is_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    families = ROOT / "ops/examples/families.yaml"
    assert main(["matrix", "--config", str(families), "--markdown"]) == 0
    said = capsys.readouterr().out
    page = (ROOT / "ops/protocols.md").read_text(encoding="utf-8")
    assert f"\n\n{said}\n" in page, "put the output of `gw matrix --markdown` into the page"
