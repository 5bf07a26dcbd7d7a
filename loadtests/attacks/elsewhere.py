"""A gateway as another host would run it, and at another pace: `gw` with a few names changed.

    python -m loadtests.attacks.elsewhere HOST PACE serve --config FILE …

HOST is the host name it reports; an empty one leaves the name alone. PACE multiplies how long it
waits before it takes others for dead or gives up a hold; 1 leaves everything alone.
"""

from __future__ import annotations

import importlib
import socket
import sys

from gw.cli.main import main

PACED = (
    ("actors.recovery", "BEAT_SECONDS"),
    ("actors.recovery", "BREAK_SECONDS"),
    ("actors.recovery", "INTERVAL_SECONDS"),
    ("actors.recovery", "STALE_SECONDS"),
    ("actors.wallet.wallets", "HOLD_SECONDS"),
)


def change(host: str, pace: float) -> None:
    """Change this process before the gateway begins."""
    if host:
        socket.gethostname = lambda: host
    for module_name, name in PACED:
        module = importlib.import_module(module_name)
        setattr(module, name, getattr(module, name) * pace)


if __name__ == "__main__":
    change(sys.argv[1], float(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
