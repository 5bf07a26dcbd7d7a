"""The public listener's HTTP/1.1, on httptools: a thin way from the socket to the application.

Drives the same application in place of Tornado's own server, at about two thirds of the CPU of a
plain call (measured: `./ops/bench`). What is read is `connection.py`, how fast and how long
`pace.py`, one request and its answer `request.py`, a request's head `head.py`.
"""

from gw.web.front.listener import FrontListener

__all__ = ["FrontListener"]
