"""The public listener's HTTP/1.1, on httptools: a thin way from the socket to the application.

Drives a Tornado application in place of Tornado's own server, at about two thirds of the CPU of a
plain call. What is read is `connection.py`, how fast and how long
`pace.py`, one request and its answer `request.py`, a request's head `head.py`.
"""

from gw.web.front.listener import FrontListener
from gw.web.front.pace import LAST_CALL_SECONDS

__all__ = ["LAST_CALL_SECONDS", "FrontListener"]
