"""A gateway as it is installed: a configuration, what runs on it, and the commands beside it."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from loadtests.rig.processes import GatewayProcess, gw
from loadtests.rig.site import ANYWHERE, Site


@dataclass
class Installation:
    """What every test of real processes and every load is made of.

    Its channels speak to the upstream at `upstream_url`, unless they name another.
    """

    config: Path
    settings: dict[str, Any]
    upstream_url: str
    _: KW_ONLY
    environ: Mapping[str, str] = field(default_factory=dict)
    processes: int = 1
    site: Site = ANYWHERE

    def write(self, **more: Any) -> None:
        """Write the configuration, with `more` in it from now on.

        By a rename: the gateway may be reading what it was signalled of before.
        """
        self.settings.update(more)
        for one in self.settings["channels"]:
            one.setdefault("base_url", self.upstream_url)
        beside = self.config.with_suffix(".new")
        beside.write_text(yaml.safe_dump(self.settings), encoding="utf-8")
        beside.replace(self.config)

    def serve(self, *, is_heard: bool = False) -> GatewayProcess:
        """Start a gateway on the configuration as it is now."""
        return GatewayProcess(
            self.config,
            processes=self.processes,
            environ=self.environ,
            site=self.site,
            is_heard=is_heard,
        )

    def gw(self, *arguments: str) -> Any:
        """One command of the CLI. Raises CommandFailed."""
        return gw(self.config, *arguments, own=self.site.own)

    def verify(self, *options: str) -> dict[str, Any]:
        """`gw ledger verify`, costs too. Raises CommandFailed when an invariant does not hold."""
        report: dict[str, Any] = self.gw("ledger", "verify", "--costs", *options)
        return report
