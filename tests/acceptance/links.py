"""Links to what tasks have made, which end at once when a test wants it."""

import time

from tests.support.house import House
from tests.support.transactions import transaction

EXPIRED_URL = "https://media.example/expired"


def expire_link(h: House, task_id: str) -> int:
    """Let the link of a task be another one, over for a minute; return when it ended (Unix time).

    The upstream's own stays as it is, so that it is seen who was asked again.
    """
    ended_at = int(time.time()) - 60
    with transaction(h.settings["database_url"]) as cursor:
        cursor.execute(
            "UPDATE jobs SET result = (result::jsonb || jsonb_build_object("
            "'url', %s::text, 'expires_at', %s::bigint))::json WHERE id = %s",
            (EXPIRED_URL, ended_at, task_id),
        )
        assert cursor.rowcount == 1
    return ended_at
