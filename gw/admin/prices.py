"""An operator's functions of prices agreed with accounts: set, list, remove; each is audited.

`gw/keys/agreed_prices.py` reads and applies them. A change applies to later calls: the price of an
admitted call is in its receipt.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from actors.store.errors import ConstraintViolated
from actors.store.queries import load
from actors.store.session import Session, Statements
from actors.wallet.ledger import UnknownAccount
from actors.wallet.storable import to_json
from channels.prices import PriceSpec
from channels.registry import Registry
from gw import accounts
from gw.admin import audit
from gw.admin.audit import Actor
from gw.config.faults import FaultReport, Mark
from gw.config.mappings import attempt, mapping
from gw.config.nodes import Scalar, Unreadable
from gw.config.prices import FACTOR, PRICE
from gw.config.yaml_source import parse
from gw.nouns.refused import Invalid, Refused
from gw.nouns.values import Instant

SQL = load("gw.admin", "prices.sql")
# The current and future prices of one account, which are read with each of its keys.
AGREED_MAX = 100
PATTERNS_MAX = 100
PATTERN_CHARACTERS_MAX = 200
PRICES_CHARACTERS_MAX = 20_000


class AgreedPriceView(Struct, frozen=True):
    """A price as shown. `models` are patterns; either `factor` or `prices` is null."""

    id: str
    account_id: str
    models: list[str]
    factor: str | None
    prices: dict[str, Any] | None
    valid_from: Instant
    valid_until: Instant | None
    created_at: Instant
    removed_at: Instant | None


def read_factor(text: str) -> Decimal:
    """Read a factor: above 0, at most 1000, plain decimals. Raises Invalid."""
    report = FaultReport("")
    for found in attempt(FACTOR, Scalar(text, "text", Mark(1, 1)), report.top()):
        return found
    raise Invalid(f"{text!a} is not a factor: {report.faults[0].allowed}")


def read_prices(text: str) -> PriceSpec:
    """Read prices as the configuration has them, in JSON. Raises Invalid, with every fault."""
    if len(text) > PRICES_CHARACTERS_MAX:
        raise Invalid(f"prices: more than {PRICES_CHARACTERS_MAX} characters")
    try:
        if not isinstance(json.loads(text), dict):
            raise Invalid('prices: expected an object such as {"input": "1.5"}')
    except (ValueError, RecursionError) as error:
        raise Invalid(f"prices: not JSON: {error}") from error
    report = FaultReport("prices")
    node = parse(text, {}, report)
    sections = [] if isinstance(node, Unreadable) else attempt(mapping(PRICE), node, report.top())
    if report.faults:
        raise Invalid("; ".join(str(fault) for fault in report.faults))
    spec = PriceSpec(**sections[0].values)
    if not spec.stated():
        raise Invalid("prices: none is stated")
    return spec


def read_patterns(patterns: Sequence[str]) -> list[str]:
    """Read patterns of model ids, with * for any text; an empty list is all. Raises Invalid."""
    found = list(dict.fromkeys(patterns)) or ["*"]
    if len(found) > PATTERNS_MAX:
        raise Invalid(f"models: more than {PATTERNS_MAX} patterns")
    for one in found:
        if not one or len(one) > PATTERN_CHARACTERS_MAX or not one.isprintable():
            raise Invalid(f"{one!a} is not a pattern of model ids, such as gpt-*")
    return found


def unmatched_of(patterns: Sequence[str], registry: Registry) -> list[str]:
    """Return the patterns that match the id of no configured model; one may be added later."""
    return [
        pattern
        for pattern in patterns
        if not any(fnmatchcase(model, pattern) for model in registry.models)
    ]


async def add(
    session: Session,
    actor: Actor,
    account_id: str,
    *,
    models: Sequence[str],
    factor: Decimal | None = None,
    prices: PriceSpec | None = None,
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
) -> AgreedPriceView:
    """Add a price, from now by default. Raises UnknownAccount, Invalid, Refused."""
    if (factor is None) == (prices is None):
        raise Invalid("give a factor or prices, one of them")
    row = await session.fetch_one(SQL["count"], (account_id,))
    if row is not None and row[0] >= AGREED_MAX:
        raise Refused(
            f"the account has {AGREED_MAX} prices: take one back first", "too_many_prices"
        )
    price_id = f"price_{secrets.token_hex(12)}"
    stated = None if prices is None else prices.stated()
    try:
        await session.execute(
            SQL["insert"],
            {
                "id": price_id,
                "account": account_id,
                "models": list(models),
                "factor": None if factor is None else f"{factor:f}",
                "prices": None if stated is None else to_json(stated),
                "valid_from": valid_from,
                "valid_until": valid_until,
            },
        )
    except ConstraintViolated as error:
        if error.constraint_name == "account_prices_account_id_fkey":
            raise UnknownAccount(account_id) from error
        raise Invalid("a price ends after it begins") from error
    details = {
        "models": list(models),
        "factor": None if factor is None else f"{factor:f}",
        "prices": stated,
        "valid_from": valid_from,
        "valid_until": valid_until,
    }
    await audit.note(
        session, actor, "account.price", price_id, account_id=account_id, details=details
    )
    return next(one for one in await list_of(session, account_id) if one.id == price_id)


async def list_of(store: Statements, account_id: str) -> list[AgreedPriceView]:
    """Return all prices agreed with an account, expired ones too. Raises UnknownAccount."""
    await accounts.show(store, account_id)
    return [AgreedPriceView(*row) for row in await store.fetch_all(SQL["list"], (account_id,))]


async def remove(session: Session, actor: Actor, account_id: str, price_id: str) -> None:
    """Remove a price from now on. Raises UnknownAccount, Refused."""
    await accounts.show(session, account_id)
    if not await session.execute(SQL["remove"], (price_id, account_id)):
        raise Refused(
            f"the account has no price {price_id} that holds or will",
            "price_not_found",
            http_status=404,
        )
    await audit.note(session, actor, "account.price.remove", price_id, account_id=account_id)
