"""The endpoint of a dialect that is served by its record alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from channels.dialects.dialect import ChatDialect
from gw.api.chat.conversation import converse
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall


def endpoint(
    dialect: ChatDialect, *, on_get: Callable[[ApiHandler], Awaitable[None]] | None = None
) -> type[ApiHandler]:
    """The endpoint of a dialect that is served by its record alone, but for what a GET does."""
    family = dialect.family

    class DialectHandler(ApiHandler):
        protocol = family.protocol
        route = family.protocol
        shape = family.error_shape
        limited = billed = True

        async def on_post(self) -> None:
            call = ModelCall(self)
            await converse(call, dialect, await call.read_request(dialect))

    DialectHandler.__name__ = f"{family.dialect.title()}Handler"
    DialectHandler.__doc__ = f"The {family.public_name} protocol."
    if on_get is not None:
        DialectHandler.on_get = on_get  # type: ignore[attr-defined]
    return DialectHandler
