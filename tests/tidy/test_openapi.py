"""The reference for machines in the repository is the one that is served."""

import json
from typing import Any

import pytest

from gw.cli.main import main
from tests.tidy.files import ROOT


def without_version(document: dict[str, Any]) -> dict[str, Any]:
    """The document without the release that made it."""
    return {**document, "info": {**document["info"], "version": ""}}


def test_document_is_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openapi"]) == 0
    printed = json.loads(capsys.readouterr().out)
    kept = json.loads((ROOT / "ops/reference/openapi.json").read_text(encoding="utf-8"))
    assert without_version(kept) == without_version(printed), (
        "gw openapi > ops/reference/openapi.json"
    )
