"""Short ways to read a configuration in a test, and to say what is wrong with it."""

from pathlib import Path
from textwrap import dedent

import pytest

from gw.config.config import Config
from gw.config.faults import ConfigFaults, Fault
from gw.config.load import load_text

SOURCE = Path("/etc/gateway/gw.yaml")


def read(text: str, **environ: str) -> Config:
    return load_text(dedent(text), environ, source=SOURCE)


def faults_of(text: str, **environ: str) -> tuple[Fault, ...]:
    with pytest.raises(ConfigFaults) as caught:
        read(text, **environ)
    return caught.value.faults


def fault_of(text: str, **environ: str) -> Fault:
    """The only fault of a text."""
    faults = faults_of(text, **environ)
    assert len(faults) == 1, faults
    return faults[0]


def places_of(text: str, **environ: str) -> list[tuple[int | None, str]]:
    """Line and path of every fault."""
    return [(fault.line, fault.path) for fault in faults_of(text, **environ)]


def channel(extra: str = "", *, channel_id: str = "a") -> str:
    """A list of one good channel, from line 1 on; `extra` is added from line 6 on."""
    lines = [
        "channels:",
        f"  - id: {channel_id}",
        "    base_url: https://a.example",
        "    api_key: key",
        "    protocols: [chat]",
        *(f"    {line}" for line in extra.splitlines()),
    ]
    return "\n".join(lines) + "\n"


def model(extra: str = "", *, price: str = "{input: 1, output: 2}") -> str:
    """A good channel and a good model bound to it; `extra` is added from line 10 on."""
    lines = [
        "models:",
        "  - id: m",
        "    channels: [a]",
        f"    price: {price}",
        *(f"    {line}" for line in extra.splitlines()),
    ]
    return channel() + "\n".join(lines) + "\n"


def check_fault(text: str, line: int, path: str, found: str, allowed: str, hint: str) -> None:
    """The one fault of a file stands there, and says so: parts of what was found and is allowed."""
    fault = fault_of(text)
    assert (fault.line, fault.path) == (line, path)
    assert found in fault.found
    assert allowed in fault.allowed
    assert hint in fault.hint
    assert bool(hint) or not fault.hint.startswith("did you mean")
    assert "hidden" not in repr(fault)
