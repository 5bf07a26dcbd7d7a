"""What is refused of a grant before anything is looked up."""

from typing import Any

import pytest

from gw.admin import bases
from gw.admin.audit import Actor
from gw.knowledge.importing import ImportTarget
from gw.nouns.refused import Invalid
from tests.support.rows import cases

TARGET = ImportTarget(account_id="acct_1", kb_id="docs")


@cases("user", "bob\n", "bob smith", "")
async def test_grant_is_to_a_name_that_a_user_can_have(user: str) -> None:
    nobody: Any = None
    for act in (bases.grant, bases.revoke):
        with pytest.raises(Invalid, match="not a name of a user"):
            await act(nobody, Actor.of_this_process(), TARGET, user=user, account=None)
