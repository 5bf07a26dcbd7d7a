"""The two HTTP servers that the public listener can run on, by name (`gw serve --front`).

Both drive the same application and pass the same tests: `httptools` is the faster, Tornado's own is
what it is held against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from gw.app import GatewayApplication
from gw.config.config import Address
from gw.web.front import FrontListener
from gw.web.listener import Listener, PublicListener

Front = Literal["httptools", "tornado"]

DEFAULT_FRONT: Front = "httptools"

FRONTS: Mapping[Front, Callable[[GatewayApplication, Address], PublicListener]] = MappingProxyType(
    {"httptools": FrontListener, "tornado": Listener}
)
