"""What the documents show of a command is what the command says."""

import re
from pathlib import Path

import pytest

from gw.cli.main import main
from tests.support.rows import each
from tests.tidy.files import ROOT, files
from tests.unit.translation import dropping


def test_matrix_is_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    families = ROOT / "ops/examples/families.yaml"
    assert main(["matrix", "--config", str(families), "--markdown"]) == 0
    message = capsys.readouterr().out
    page = (ROOT / "ops/reference/models.md").read_text(encoding="utf-8")
    assert f"\n\n{message}\n" in page, "put the output of `gw matrix --markdown` into the page"


def test_losses_are_the_translations() -> None:
    assert dropping.PAGE.read_text(encoding="utf-8") == dropping.page(), dropping.__doc__


PAGES = sorted([*ROOT.glob("*.md"), *files(".github", "ops", "loadtests", suffix=".md")])
# A link within the project, and a file or folder of it that a page names.
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
_NAMED = re.compile(
    r"(?<![\w./])((?:gw|actors|channels|metrics|loadtests|tests)/[\w./-]*\w\.(?:py|sql))"
)


@each("page", PAGES)
def test_what_a_page_points_to_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = {link for link in _LINK.findall(text) if not (page.parent / link).exists()}
    named = {name for name in _NAMED.findall(text) if not (ROOT / name).exists()}
    assert not links | named


def test_index_names_every_decision() -> None:
    index = ROOT / "ops/decisions/README.md"
    named = set(_LINK.findall(index.read_text(encoding="utf-8")))
    assert {path.name for path in files("ops/decisions", suffix=".md")} - {index.name} <= named
