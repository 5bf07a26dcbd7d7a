"""The bill of a call measured by its upstream: in tokens, in searches, in seconds of sound.

A model with a price per million tokens is billed by tokens, any other by its unit. The amount
stated by the upstream counts; without one the estimate is charged (reference 5.6), and the receipt
reports that, and what the estimate rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from actors.wallet.bounds import SLACK_TOKENS, is_measure_doubted
from actors.wallet.money import MAX_NANO_USD, div_round_half_up
from actors.wallet.piece_prices import COUNTED, MediaPrice
from actors.wallet.pricing import Billable
from actors.wallet.sheets import hold_nano_usd, token_price
from channels.dialects.stated import Stated
from channels.dialects.token_counts import Usage
from channels.registry import ModelSpec
from gw.calls.bills import NO_TOKENS, Charged, ReadBill
from gw.calls.token_charge import charge_of, price_detail
from metrics import genai
from metrics.spans import Attributes

# All of the input may be sound, whose tokens may have a price of their own.
_SOUND = Billable(members=frozenset({"audio_input"}))


class Amount(Struct, frozen=True, kw_only=True):
    """Milliseconds or calls, by the unit of the model's price, and tokens."""

    quantity: int
    usage: Usage


def _size_of(amount: Amount) -> tuple[int, int]:
    return amount.usage.input_tokens, amount.quantity


class Measured(Struct, frozen=True, kw_only=True):
    """The facts stated in an upstream's response; None if missing.

    `least` is what its content comes to, where nothing is stated.
    """

    usage: Usage | None = None
    quantity: int | None = None  # milliseconds or calls
    least: Amount | None = None
    model: str | None = None
    error: str | None = None


def as_stated(read_response: Callable[[bytes], Stated]) -> Callable[[bytes], Measured]:
    """Return the reading of a response that states its input, of which all is billed.

    It may go to a helper process, where no function within another one can.
    """
    return partial(_stated, read_response)


def _stated(read_response: Callable[[bytes], Stated], body: bytes) -> Measured:
    read = read_response(body)
    usage = None if read.tokens is None else Usage(input_tokens=read.tokens, output_tokens=0)
    return Measured(usage=usage, quantity=read.searches, model=read.model, error=read.error)


def no_units(quantity: int) -> int:
    """Return the units of a row that is billed by tokens alone."""
    return 0


class _Price:
    """The price of a model: per token if it has such a price, else per unit."""

    def __init__(self, model: ModelSpec) -> None:
        self.by_tokens = model.price.input is not None or model.price.output is not None
        self._tokens = token_price(model.price, model.multiplier)
        self._unit = MediaPrice.of(model)

    @property
    def stated(self) -> Mapping[str, str]:
        """The price as receipts show it."""
        return self._tokens.stated if self.by_tokens else self._unit.stated

    def units(self, quantity: int) -> Mapping[str, int]:
        """Return a quantity as receipts show it; empty if tokens are billed."""
        return {} if self.by_tokens else {COUNTED[self._unit.priced_by]: quantity}

    def detail(self, usage: Usage) -> Mapping[str, Any]:
        """Return the calculation for the receipt; empty if no tokens are billed."""
        return price_detail(charge_of(usage, self._tokens, "stated")) if self.by_tokens else {}

    def most_nano_usd(self, amount: Amount) -> int:
        """Return the maximum cost of an amount, whatever its tokens are of."""
        if not self.by_tokens:
            return self.cost_nano_usd(amount)
        taken, given = amount.usage.input_tokens, amount.usage.output_tokens
        return hold_nano_usd(self._tokens, input_tokens=taken, output_tokens=given, billable=_SOUND)

    def cost_nano_usd(self, amount: Amount) -> int:
        """Return the cost, at most the largest amount of the ledger."""
        if self.by_tokens:
            return self._tokens.cost_nano_usd(amount.usage)
        unit = self._unit
        cost = div_round_half_up(unit.numerator * amount.quantity, unit.denominator)
        return min(cost, MAX_NANO_USD)


class MeasuredBill(ReadBill):
    """Prices one call; `reading` reads a whole response and raises UpstreamMalformed.

    `most` is held, and charged if the upstream states nothing, or more than is possible: than
    `most` with the margin of `actors/wallet/bounds.py` and `slack`; `tokens_max` is how many tokens
    of input are possible, if more than are held for. `likely` is charged instead where the request
    states it, or what the content of the response comes to if that is more. `units_of` maps a
    quantity to the units of the row.
    """

    def __init__(
        self,
        model: ModelSpec,
        *,
        most: Amount,
        likely: Amount | None = None,
        reading: Callable[[bytes], Measured],
        units_of: Callable[[int], int],
        slack: int = 0,
        tokens_max: int = 0,
    ) -> None:
        self._price = _Price(model)
        self._most = most
        self._likely = likely
        self.reading = reading
        self._units_of = units_of
        self._slack = slack
        self._tokens_max = max(tokens_max, most.usage.input_tokens)
        self._measured: Measured | None = None

    @property
    def hold_nano_usd(self) -> int:
        return self._price.most_nano_usd(self._most)

    @property
    def stated_price(self) -> Mapping[str, Any]:
        return self._price.stated

    @property
    def is_complete(self) -> bool:
        return self._measured is not None

    def read(self, body: bytes, *, now: float) -> str | None:
        return self.take(self.reading(body))

    def take(self, measured: Measured) -> str | None:
        """Count what `reading` has read elsewhere."""
        self._measured = measured
        return measured.error

    def charged_whole(self) -> Charged:
        measured, doubted = self._believed()
        by_tokens, amount = self._price.by_tokens, self._amount(measured)
        is_stated = (measured.usage if by_tokens else measured.quantity) is not None
        units = self._price.units(amount.quantity)
        return Charged(
            cost_nano_usd=self._price.cost_nano_usd(amount),
            usage=amount.usage if by_tokens else NO_TOKENS,
            units=self._units_of(amount.quantity),
            detail={
                **({"units": units} if units else {}),
                **({} if is_stated else self._basis(measured)),
                **({"doubted": doubted} if doubted else {}),
                **self._price.detail(amount.usage),
            },
            upstream={"model": measured.model, "error": measured.error},
            doubted=doubted,
        )

    def is_made(self, charged: Charged) -> bool:
        return self._measured is not None and self._measured.error is None

    def cost_at(self, model: ModelSpec, charged: Charged) -> int:
        return _Price(model).cost_nano_usd(self._amount(self._believed()[0]))

    def _basis(self, measured: Measured) -> Mapping[str, str]:
        return {"basis": "estimated", "estimated_by": self._estimate(measured.least)[0]}

    def _believed(self) -> tuple[Measured, Mapping[str, int]]:
        """Return the facts without counts that are not possible, and these counts."""
        measured = self._measured
        assert measured is not None
        most, doubted = self._most, dict[str, int]()
        usage, quantity = measured.usage, measured.quantity
        if quantity is not None and is_measure_doubted(quantity, most.quantity, self._slack):
            doubted["quantity"], quantity = quantity, None
        if usage is not None:
            given, made = self._tokens_max, most.usage.output_tokens
            if is_measure_doubted(usage.input_tokens, given, SLACK_TOKENS):
                doubted["input"] = usage.input_tokens
            if is_measure_doubted(usage.output_tokens, made, SLACK_TOKENS):
                doubted["output"] = usage.output_tokens
            usage = None if {"input", "output"} & doubted.keys() else usage
        if not doubted:
            return measured, doubted
        return replace(measured, usage=usage, quantity=quantity), doubted

    def _amount(self, measured: Measured) -> Amount:
        """Return the stated amount, with the estimate in place of missing members."""
        quantity, usage = measured.quantity, measured.usage
        if quantity is not None and usage is not None:
            return Amount(quantity=quantity, usage=usage)
        estimate = self._estimate(measured.least)[1]
        return Amount(
            quantity=estimate.quantity if quantity is None else quantity,
            usage=estimate.usage if usage is None else usage,
        )

    def _estimate(self, least: Amount | None) -> tuple[str, Amount]:
        """Return the amount to charge if none is stated, and what it rests on."""
        likely = self._likely
        if likely is None:
            return "hold", self._most
        if least is None or _size_of(least) <= _size_of(likely):
            return "request", likely
        return "response", min(least, self._most, key=_size_of)

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        pairs = dict(super().attributes(charged, first_byte_seconds=first_byte_seconds))
        if charged.usage is not NO_TOKENS:
            pairs[genai.USAGE_INPUT_TOKENS] = charged.usage.input_tokens
            pairs[genai.USAGE_OUTPUT_TOKENS] = charged.usage.output_tokens
        return pairs
