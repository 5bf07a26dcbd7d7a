"""Everything that states the version of the running gateway states that of `setup.cfg`."""

import re

import pytest

from gw.cli.main import main
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.tidy.files import ROOT
from tests.tidy.installed import setup


def test_version_is_one(h: Deployment, tenant: Tenant, capsys: pytest.CaptureFixture[str]) -> None:
    declared = setup()["metadata"]["version"]
    assert main(["--version"]) == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(rf"gw {re.escape(declared)} \(commit [0-9a-f]{{40}}\)\n", printed)
    described = h.client.get("/openapi.json").json["info"]["version"]
    measured = h.metrics("gw_build_info")
    tenant.client.chat(model="sim-model")
    headers = {name.lower(): value for name, value in h.upstream.last_request()["headers"].items()}
    assert described == declared
    assert measured == {f'version="{declared}"': 1}
    assert headers["user-agent"] == f"gw/{declared}"


def test_manifests_run_the_image_of_this_version() -> None:
    declared = setup()["metadata"]["version"]
    images = {
        image
        for path in (ROOT / "ops/kubernetes").glob("*.yaml")
        for image in re.findall(r"image: (\S+)", path.read_text(encoding="utf-8"))
    }
    assert images == {f"model-gateway:{declared}"}


def test_changelog_begins_with_this_version() -> None:
    text = (ROOT / "ops/CHANGELOG.md").read_text(encoding="utf-8")
    newest, when = re.findall(r"^## \[(.*)\] - (.*)$", text, re.MULTILINE)[0]
    assert newest == setup()["metadata"]["version"]
    assert re.fullmatch(r"Unreleased|\d{4}-\d\d-\d\d", when)
