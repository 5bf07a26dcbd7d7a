"""The two HTTP servers that the public listener can run on, by name (`gw serve --front`).

Both drive the same application and pass the same tests: `httptools` is the faster, Tornado's own is
what it is held against.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, Protocol

from gw.config.config import Address
from gw.web.application import GatewayApplication
from gw.web.front import FrontListener
from gw.web.listener import Listener, PublicListener

Front = Literal["httptools", "tornado"]

DEFAULT_FRONT: Front = "httptools"


class MakesListener(Protocol):
    """One of the servers."""

    def __call__(
        self,
        application: GatewayApplication,
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        shares_port: bool = False,
    ) -> PublicListener: ...


FRONTS: Mapping[Front, MakesListener] = MappingProxyType(
    {"httptools": FrontListener, "tornado": Listener}
)
