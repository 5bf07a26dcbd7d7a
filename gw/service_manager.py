"""Reports to the service manager that started the process (sd_notify(3), `Type=notify`).

Only the process that was started reports: workers inherit no $NOTIFY_SOCKET. Without the variable
nothing is sent.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from metrics.logs import EventLog

VARIABLE = "NOTIFY_SOCKET"
READY, STOPPING = "READY=1", "STOPPING=1"


def notify(state: str, environ: Mapping[str, str] = os.environ) -> None:
    """Send one state. It never waits: what a manager does not take is logged."""
    address = environ.get(VARIABLE, "")
    if not address:
        return
    if address.startswith("@"):  # an abstract name, which begins with NUL
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.connect(address)
            sender.send(state.encode())
    except (OSError, ValueError) as error:
        EventLog("gw.run").warning("service_manager_not_notified", state=state, why=str(error))


def inherited(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a process that does not report."""
    return {name: value for name, value in environ.items() if name != VARIABLE}
