"""The system as a page: the configuration in force, the proof of the ledger, and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from gw.admin.ledger import LedgerProofs
from gw.conditions import RUNBOOKS, ChannelFacts, conditions_of, read_facts
from gw.config.config import Config
from gw.console.board import ChannelTile
from gw.console.changes import actor_of, in_words
from gw.console.pages import ConsoleHandler
from gw.console.texts import TEXTS


class SystemHandler(ConsoleHandler):
    """The configuration in force, the proof of the ledger, and the conditions of alerts."""

    @property
    def proofs(self) -> LedgerProofs:
        """The runner of proofs in this process."""
        proofs: LedgerProofs = self.settings["proofs"]
        return proofs

    async def on_get(self) -> None:
        config = self.services.current.config
        facts = await read_facts(self.services.database)
        fleet = await self.services.figures.fleet()
        self.page(
            "system.html",
            settings=list(settings_of(config)),
            source=config.source,
            cautions=config.cautions,
            facts=facts,
            has_runbooks=RUNBOOKS.is_dir(),
            is_proving=(await self.proofs.state()).is_running,
            conditions=conditions_of(
                facts, [_facts(tile) for tile in fleet.channels], fleet.conditions
            ),
        )

    async def on_post(self) -> None:
        """Prove the ledger; a long proof continues after the response."""
        with in_words():
            await self.proofs.run_proof(actor_of(self.who), with_costs=False, is_everything=False)
        self.redirect("/system", status=303)


def settings_of(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key of the configuration with its value; of a secret, whether it is set."""
    for one in fields(value):
        name, found = f"{prefix}{one.name}", getattr(value, one.name)
        if one.name in ("registry", "cautions", "source"):
            continue
        if not one.repr:
            yield name, TEXTS("system.set" if found else "system.unset")
        elif is_dataclass(found) and type(found).__str__ is object.__str__:
            yield from settings_of(found, f"{name}.")
        elif isinstance(found, Path):
            yield name, str(found)
        elif isinstance(found, frozenset | tuple):
            yield name, ", ".join(sorted(map(str, found))) or TEXTS("system.unset")
        else:
            yield name, TEXTS("system.unset") if found in (None, "") else str(found)
    if isinstance(value, Config):
        yield "channels", str(len(value.registry.channels))
        yield "models", str(len(value.registry.models))


def _facts(tile: ChannelTile) -> ChannelFacts:
    return ChannelFacts(
        id=tile.id,
        state=tile.state,
        in_use=tile.in_use,
        slots=tile.slots,
        keys=tile.keys,
        aside=tile.aside,
        hour_attempts=tile.hour_attempts,
        hour_failures=tile.hour_failures,
    )
