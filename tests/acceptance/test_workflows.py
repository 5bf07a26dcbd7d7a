"""The workflows of the forge, which no test can run: linted, and they name what is there."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tidy.files import ROOT
from tests.tidy.installed import setup

pytestmark = pytest.mark.long

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yaml"))


def workflow(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((GITHUB / "workflows" / name).read_text())
    return read


def test_workflows_pass_their_linter() -> None:
    zizmor = Path(sys.executable).parent / "zizmor"
    options = ("--offline", "--no-progress", "--persona=pedantic")
    files = (*WORKFLOWS, GITHUB / "dependabot.yml")
    done = subprocess.run([zizmor, *options, *files], capture_output=True, text=True, check=False)
    assert WORKFLOWS
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_supported_python_is_checked_as_the_continuous_integration_does() -> None:
    (job,) = workflow("check.yaml")["jobs"].values()
    supported = re.findall(r"Python :: (3\.\d+)", setup()["metadata"]["classifiers"])
    assert job["strategy"]["matrix"]["python"] == supported
    assert ".ci/run" in [step.get("run") for step in job["steps"]]


def test_a_tag_publishes_only_what_was_built_and_signed() -> None:
    (job,) = workflow("release.yaml")["jobs"].values()
    steps = [step.get("run") or step["uses"].partition("@")[0] for step in job["steps"]]
    order = ("ops/release", "docker build", "attest-build-provenance", "gh release create")
    places = [next(i for i, step in enumerate(steps) if one in step) for one in order]
    assert places == sorted(places)


def test_scripts_that_are_named_are_there() -> None:
    texts = [path.read_text() for path in (*WORKFLOWS, ROOT / ".pre-commit-config.yaml")]
    named = {one for text in texts for one in re.findall(r"[:\s]((?:\.ci|ops)/[\w./]*\w)", text)}
    assert {".ci/run", "ops/release", "ops/check", "ops/image/Dockerfile"} <= named
    assert [one for one in named if not (ROOT / one).exists()] == []
