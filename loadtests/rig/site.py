"""Where a process runs: the checkout whose program it is, its host, its cores."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loadtests.rig.machine import Cores

NAMESPACES = Path("/run/netns")  # where `ip netns` names them


class Tree(NamedTuple):
    """A checkout of the project, and the Python that has what it needs."""

    folder: Path
    python: str
    suffix: str = ""  # of the names of its rows

    @classmethod
    def at(cls, folder: Path) -> Tree:
        """Another checkout than this one, whose environment its own scripts have made."""
        whole = folder.resolve()
        return cls(whole, str(whole / ".venv" / "bin" / "python"), f" of {whole.name}")

    def knows(self, key: str) -> bool:
        """Whether its configuration has this key: its example names them all."""
        return f"\n{key}:" in (self.folder / "ops/examples/gw.yaml").read_text(encoding="utf-8")


OWN = Tree(Path(__file__).resolve().parents[2], sys.executable)


class Host(NamedTuple):
    """Where a process runs: its address, and its network namespace unless that is ours."""

    address: str = "127.0.0.1"
    namespace: str = ""

    def command(self, words: Sequence[str]) -> list[str]:
        """What runs a command there, as the same process."""
        entered = ["nsenter", f"--net={NAMESPACES / self.namespace}"] if self.namespace else []
        return [*entered, *words]


HERE = Host()


class Site(NamedTuple):
    """A tree, a host, and cores of it; None: all that this process may use."""

    own: Tree = OWN
    host: Host = HERE
    cores: Cores | None = None

    def module(self, arguments: Sequence[str]) -> list[str]:
        """The command of a Python module."""
        return self.host.command([self.own.python, "-m", *arguments])

    @property
    def folder(self) -> Path | None:
        """The working folder, where it has to be another than ours."""
        return None if self.own is OWN else self.own.folder


ANYWHERE = Site()
