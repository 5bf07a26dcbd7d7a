"""What `ops/release` publishes, where no checkout is: complete, nothing besides, and it runs.

`PYTHONS="python3.12 python3.13" ops/test tests/acceptance/test_release.py` installs it in each.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from loadtests.rig.client import Client
from loadtests.rig.waiting import PATIENCE_SECONDS
from metrics.version import release
from tests.tidy.files import ROOT
from tests.tidy.installed import distribution, installed_files, required

pytestmark = pytest.mark.long

PYTHONS = os.environ.get("PYTHONS", sys.executable).split()
NAME = f"model_gateway-{release()}"
WHEEL, SOURCES, SBOM = f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz", "model_gateway.cdx.json"
REQUIREMENTS = "requirements.txt"
# Without what a shell may have of a checkout or of another environment, but for `ops/release`.
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
EXAMPLE = ROOT / "ops/examples/gw.yaml"
EXAMPLE_KEYS = dict.fromkeys(re.findall(r"\$\{(EXAMPLE_\w+)\}", EXAMPLE.read_text()), "sk-example")


def run(*command: str | Path, cwd: Path, **environ: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        command, cwd=cwd, env=ENVIRON | environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def check_sums(folder: Path) -> None:
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert set(sums) == {WHEEL, SOURCES, SBOM, REQUIREMENTS}
    for name, digest in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def check_contents(folder: Path) -> str:
    """Wheel and sources have the packages that are installed, and no other file; the commit."""
    expected = {*installed_files(), "metrics/commit.txt"}
    with zipfile.ZipFile(folder / WHEEL) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
        commit = wheel.read("metrics/commit.txt").decode().strip()
    assert packed == expected
    with tarfile.open(folder / SOURCES) as sources:
        names = {one.name.removeprefix(f"{NAME}/") for one in sources if one.isfile()}
    beside = {name for name in names - expected if ".egg-info/" not in name}
    assert names >= expected
    assert beside == {
        *("PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "setup.py", ".github/LICENSE"),
    }
    assert commit.removesuffix("-dirty") == run("git", "rev-parse", "HEAD", cwd=ROOT).strip()
    return commit


def check_rebuilt(folder: Path, beside: Path) -> None:
    """Whoever has the sources builds the same wheel, byte for byte."""
    run("tar", "-xpzf", folder / SOURCES, cwd=beside)
    epoch = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    command = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", beside)
    run(*command, beside / NAME, cwd=beside, SOURCE_DATE_EPOCH=epoch)
    assert (beside / WHEEL).read_bytes() == (folder / WHEEL).read_bytes()


def check_bill(folder: Path) -> None:
    """The SBOM has the gateway, what it needs directly, and all that was pinned and installed."""
    bill = json.loads((folder / SBOM).read_text())
    found = {
        distribution(one["name"]): f"{one['name']}=={one['version']}" for one in bill["components"]
    }
    assert found["model-gateway"] == f"model-gateway=={release()}"
    needs = {one["ref"]: one.get("dependsOn", ()) for one in bill["dependencies"]}
    needed = {distribution(one.partition("==")[0]) for one in needs[found["model-gateway"]]}
    assert needed >= required("s3", "aws", "google")
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (folder / REQUIREMENTS).read_text(), re.MULTILINE)
    versions = {distribution(name): version for name, version in pinned}
    assert {
        name: one.partition("==")[2] for name, one in found.items() if name in versions
    } == versions
    assert set(found) - set(versions) == {"model-gateway"}


@pytest.mark.parametrize("python", PYTHONS)
def test_release_is_whole_and_runs(data_dir: Path, tmp_path: Path, python: str) -> None:
    folder, environment, empty = (tmp_path / name for name in ("dist", "installed", "empty"))
    empty.mkdir()
    run(ROOT / "ops/release", folder, environment, cwd=empty, PYTHON=python)
    check_sums(folder)
    commit = check_contents(folder)
    check_rebuilt(folder, tmp_path)
    check_bill(folder)
    programs = environment / "bin"
    version = run(programs / "gw", "--version", "--json", cwd=empty)
    assert json.loads(version) == {"version": release(), "commit": commit}
    shutil.copy(EXAMPLE, empty)
    run(programs / "gw", "check-config", "--config", empty / "gw.yaml", cwd=empty, **EXAMPLE_KEYS)
    where = run(programs / "python", "-c", "import gw; print(gw.__path__[0])", cwd=empty)
    assert where.startswith(str(environment)), where
    check_demo(programs, data_dir / "gw.yaml", empty)


def check_demo(programs: Path, config: Path, empty: Path) -> None:
    demo = subprocess.Popen(
        [programs / "gw", "demo", "--config", config, "--json"],
        cwd=empty,
        env=ENVIRON,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert demo.stdout is not None
        shown = json.loads(demo.stdout.readline())
        client = Client(shown["base_url"], shown["key"])
        assert client.chat(model="demo-large", stream=True).is_complete
        page = Client(shown["console"], None).get(urlsplit(shown["console"]).path)
        assert page.status == 200
        assert b"<html" in page.body
        report = run(programs / "gw", "ledger", "verify", "--config", config, "--json", cwd=empty)
        assert json.loads(report)["ok"]
        demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=PATIENCE_SECONDS) == 0
    finally:
        demo.kill()
        demo.communicate()
