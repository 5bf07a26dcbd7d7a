"""The nodes of a LiteLLM configuration, parsed; faults are reported by line."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from gw.config import nodes
from gw.config.faults import Location
from gw.moving_in.litellm.names import ENVIRONMENT
from gw.moving_in.plan import SecretText, Value, Variable

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def table_of(node: nodes.Node, at: Location) -> nodes.Table | None:
    if isinstance(node, nodes.Table):
        return node
    if not isinstance(node, nodes.Unreadable):
        at.blame(found=nodes.described(node, hidden=True), allowed="a mapping, as LiteLLM has it")
    return None


def member_of(
    node: nodes.Table, name: str, at: Location, *, is_needed: bool = True
) -> nodes.Table | None:
    entry = node.entries.get(name)
    if entry is None or (not is_needed and is_nothing(entry.value)):
        if not is_needed:
            return nodes.Table({}, node.mark)
        at.key(name).blame(found="nothing", allowed="a mapping, as LiteLLM has it")
        return None
    return table_of(entry.value, at.key(name, entry.mark))


def text_of(node: nodes.Table, name: str, at: Location) -> str | None:
    found = scalar_of(node, name)
    if not found:
        entry = node.entries.get(name)
        at.key(name, entry.mark if entry else None).blame(found="nothing", allowed="a text")
    return found or None


def scalar_of(node: nodes.Table, name: str) -> str | None:
    entry = node.entries.get(name)
    if entry is None or not isinstance(entry.value, nodes.Scalar) or entry.value.is_nothing:
        return None
    return entry.value.text


def value_of(node: nodes.Table, name: str) -> Value | None:
    """Return a text: a Variable for os.environ/NAME, else a Secret, since it may be one."""
    text = scalar_of(node, name)
    if not text:
        return None
    named = text.removeprefix(ENVIRONMENT)
    if named != text and _VARIABLE.fullmatch(named):
        return Variable(named)
    return SecretText(text)


def number_of(node: nodes.Table, name: str, at: Location) -> int | None:
    text = scalar_of(node, name)
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}", text, re.ASCII) and not (
        name.endswith("tokens") and re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII)
    ):
        where = at.key(name, node.entries[name].mark)
        where.blame(found="no whole number that fits", allowed="a whole number from 1 on")
        return None
    return int(text)


def decimal_of(node: nodes.Node, at: Location) -> Decimal | None:
    """Return an amount exactly as written, also as 1.5e-06."""
    try:
        amount = Decimal(node.text) if isinstance(node, nodes.Scalar) else None
    except InvalidOperation:
        amount = None
    if amount is None or not amount.is_finite() or not 0 <= amount <= 1_000_000:
        at.blame(found=nodes.described(node), allowed="a cost in USD, from 0 on")
        return None
    return amount


def is_nothing(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Scalar) and node.is_nothing
