"""The page of the system: what is wrong, and where to read what to do."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from gw.admin.ledger import LedgerProofs, ProofState
from gw.conditions import RUNBOOKS, DatabaseFacts
from gw.console import system
from gw.console.application import routes
from gw.console.board import FleetFigures
from gw.console.figures import Figures
from tests.tidy.files import ROOT
from tests.unit.console.fakes import OPERATOR, World, cookie
from tests.unit.http.client import request

CONDITION = "calls_shed"


class Busy:
    """Processes of which one reports a condition; no proof was made."""

    async def fleet(self) -> FleetFigures:
        return FleetFigures([], [CONDITION])

    async def state(self) -> ProofState:
        return ProofState(False, None)


async def nothing(_database: Any) -> DatabaseFacts:
    return DatabaseFacts(datetime.now(UTC), None, None, 0.0, 0.0, 1)


async def test_runbook_is_named_where_the_program_has_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (page,) = (one for one in routes() if one.handler is system.SystemHandler)
    monkeypatch.setattr(system, "read_facts", nothing)
    monkeypatch.setattr(system.SystemHandler, "proofs", cast(LedgerProofs, Busy()))
    named = f"ops/runbooks/{CONDITION}.md"
    assert (ROOT / named).is_file()
    for folder, is_named in ((RUNBOOKS, True), (tmp_path / "missing", False)):
        monkeypatch.setattr(system, "RUNBOOKS", folder)
        async with World(figures=cast(Figures, Busy())).served([page]) as address:
            head = request("GET", "/system", cookie(OPERATOR), key=None)
            response = await address.request(head)
        assert response.status == 200
        shown = response.body.decode()
        assert "A process is overloaded and refuses calls." in shown
        assert (named in shown) == is_named
