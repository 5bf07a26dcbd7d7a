"""The gateway and its commands behind the real PgBouncer.

Session pooling serves, also a key that is revoked at once; transaction pooling is refused at the
start of everything, in one sentence, instead of hanging at the second start.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.house import house
from tests.support.pgbouncer import running_pgbouncer
from tests.support.processes import CommandFailed, gw

pytestmark = pytest.mark.long

SENTENCE = "transaction.*: set pool_mode = session for this database, or give database_url the"


def test_session_pooling_serves_and_transaction_pooling_is_refused(
    database_url: str, data_dir: Path
) -> None:
    with running_pgbouncer(data_dir, database_url, pool_mode="session") as url:
        with house(url, data_dir) as built:
            tenant = built.tenant()
            assert tenant.client.chat().status == 200
            built.gw("key", "revoke", tenant.key_id)
            assert tenant.client.chat().status == 401
            assert built.verify()["ok"]
            built.gateway.terminate()
            built.gateway.close()
            built.gateway = built.start()  # the second start, which once hung
            assert built.client.chat().status == 200
        config = built.config
        other = data_dir / "other"
        other.mkdir()
    with running_pgbouncer(other, database_url, pool_mode="transaction") as through:
        config.write_text(config.read_text().replace(url, through))
        for command in (["serve"], ["serve", "--processes", "2"], ["account", "list"]):
            with pytest.raises(CommandFailed, match=SENTENCE) as refused:
                gw(config, *command)
            assert refused.value.code == 1
