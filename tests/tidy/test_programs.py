"""No program that the product starts inherits a secret (`metrics/environment.py`)."""

import ast
from pathlib import Path

import pytest

from metrics.environment import inherited
from tests.tidy.files import ROOT

STARTS = ("run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec")
MODULES = ("subprocess", "asyncio")
# The worker of `gw serve`, which is the gateway itself.
WHOLE = {"gw/processes/worker.py"}


def _starts(path: Path) -> list[ast.Call]:
    text = path.read_text(encoding="utf-8")
    if not any(f"{module}.{name}(" in text for module in MODULES for name in STARTS):
        return []
    tree = ast.parse(text)
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in STARTS
        and ast.unparse(node.func.value) in MODULES
        and not (node.func.attr == "run" and ast.unparse(node.func.value) == "asyncio")
    ]


def _environment_of(call: ast.Call) -> str:
    found = [ast.unparse(one.value) for one in call.keywords if one.arg == "env"]
    return found[0] if found else "everything"


def test_every_program_inherits_by_name() -> None:
    found = {}
    for room in ("actors", "channels", "gw", "metrics"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for call in _starts(path):
                name = str(path.relative_to(ROOT))
                if name not in WHOLE and not _environment_of(call).startswith("inherited("):
                    found[f"{name}:{call.lineno}"] = _environment_of(call)
    assert found == {}


def test_what_is_inherited_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = (
        "GW_SECRET",
        "GW_DATABASE_URL",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "HTTPS_PROXY",
        "REDIS_URL",
    )
    for name in secrets:
        monkeypatch.setenv(name, "a-secret-of-tests")
    given = inherited(LC_ALL="C")
    assert "a-secret-of-tests" not in given.values()
    assert (given["LC_ALL"], "PATH" in given) == ("C", True)
