"""What an endpoint is: one row of the table in `gw/app.py`.

A row states what holds of a path before and after its handler: who may call it, what it costs, what
it counts for, and how its errors look. Handlers state none of it, so that one may serve several
rows, and no handler can leave a guard out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from channels.family import ErrorShape, Family
from gw.api.checks import CHECKS, Check
from gw.api.credentials import AuthMode
from gw.api.reference.operation import Operation
from gw.http.rows import refuse_faults
from gw.http.tornado.handler import TornadoHandler, methods_of

# What a POST is sold by, if it costs money: the tokens of a chat, or pieces and other counts.
SoldBy = Literal["tokens", "count"]
BodyKind = Literal["none", "json", "form"]

SUBMIT = "on_submit"


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """One endpoint. Raises MisstatedRow where the row and its handler do not fit.

    `route` is its label in metrics and logs; `path` a regular expression, whose groups are passed
    to the handler's method; `methods` stand in Tornado's order. `options` are the handler's own.
    """

    route: str
    path: str
    methods: tuple[str, ...]
    handler: type[TornadoHandler]

    # The protocol of rows of its calls, and the shape of its errors; else the first shape.
    family: Family | None = field(default=None, kw_only=True)
    auth: AuthMode = field(default="standard", kw_only=True)
    challenge: str = field(default="Bearer", kw_only=True)  # the scheme named by a 401
    agent_keys_allowed: bool = field(default=False, kw_only=True)
    touches_key: bool = field(default=True, kw_only=True)  # updates the key's `last_used_at`
    limited: bool = field(default=False, kw_only=True)  # counts for the account's limits
    log_rate: bool = field(default=False, kw_only=True)  # counts for the key's rate of the call log
    # Of a POST: 402 without funds, and refusals have rows. What is sold by a count takes an
    # `Idempotency-Key` (reference 1.10), which its handler's `on_submit` need not know.
    sold_by: SoldBy | None = field(default=None, kw_only=True)
    body: BodyKind = field(default="none", kw_only=True)  # of a POST
    body_bytes_max: int | None = field(default=None, kw_only=True)  # else the configuration's
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    # Each method in the reference; a row of the public table without one does not start.
    describes: Sequence[Operation] = field(default=(), kw_only=True)

    protocol: str = field(init=False)
    shape: ErrorShape = field(init=False)
    billed: bool = field(init=False)
    idempotent: bool = field(init=False)
    # Those of `CHECKS` that apply, in their order; and those of a request that costs nothing.
    checks: Sequence[Check] = field(init=False)
    free_checks: Sequence[Check] = field(init=False)

    def __post_init__(self) -> None:
        family, derive = self.family, object.__setattr__
        derive(self, "protocol", "" if family is None else family.protocol)
        derive(self, "shape", ErrorShape.CHAT if family is None else family.error_shape)
        derive(self, "billed", self.sold_by is not None)
        derive(self, "idempotent", self.sold_by == "count")
        derive(self, "checks", tuple(check for check in CHECKS if check.applies(self)))
        free = tuple(check for check in self.checks if not check.is_of_money)
        derive(self, "free_checks", free)
        refuse_faults(f"endpoint {self.route} ({self.path})", self._faults())

    def _faults(self) -> dict[str, bool]:
        has, states = methods_of(self.handler), self.methods
        takes_body, takes_key = "POST" in states, hasattr(self.handler, SUBMIT)
        name = self.handler.__name__
        counts = self.limited or self.log_rate or self.billed
        return {
            f"its row states {states}, {name} has {has}": has != states,
            f"{name} has `{SUBMIT}`, its row is not sold by a count": takes_key > self.idempotent,
            f"its row is sold by a count, {name} lacks `{SUBMIT}`": takes_key < self.idempotent,
            "a POST states its body": takes_body != (self.body != "none"),
            "what is billed is a POST": self.billed and not takes_body,
            "what is billed has a family": self.billed and self.family is None,
            "nothing is counted without a key": counts and self.auth == "none",
            "either the account's limits or the key's rate count": self.limited and self.log_rate,
        }
