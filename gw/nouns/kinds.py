"""Kinds of values in the members of nouns, each in all its forms (`Kind`)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from actors.wallet.money import format_usd
from channels.registry import Registry
from gw.instants import format_instant
from gw.nouns import values
from gw.nouns.member import Form, Kind, Member, Options, as_option, or_none
from gw.nouns.refused import Invalid

# What a form sends of models: all of them or some, and which.
WHICH, MODEL = "which", "model"
MODELS_TICKED_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Kind):
    """One of several words."""

    words: Sequence[str] = ()

    def read_form(self, form: Form, member: Member) -> str:
        word = form.field(member.form)
        if word not in self.words:
            raise Invalid(f"{word!a} is none of {', '.join(self.words)}")
        return word

    def _choices(self) -> dict[str, Any]:
        return {"choices": self.words}


def choice(words: Sequence[str]) -> Choice:
    """Return the kind of one of these words."""
    return Choice(json=Literal[tuple(words)], words=words, control="choice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Kind):
    """True or false: an option without a value, a box to tick."""

    def add_option(self, parser: Options, member: Member, *, is_needed: bool) -> None:
        parser.add_argument(f"--{member.option}", action="store_true", help=member.help)

    def add_setting(self, parser: Options, member: Member) -> None:
        ways = parser.add_mutually_exclusive_group()
        for prefix, action, text in (
            ("", "store_true", member.help),
            ("no-", "store_false", member.none or argparse.SUPPRESS),
        ):
            ways.add_argument(
                f"--{prefix}{member.option}",
                dest=member.dest,
                action=action,
                default=argparse.SUPPRESS,
                help=text,
            )

    def read_form(self, form: Form, member: Member) -> bool:
        return form.field(member.form) == "on"


def _canonical(names: Sequence[str] | None, registry: Registry) -> list[str] | None:
    return None if names is None else values.canonical_models(names, registry)


def _readable_models(allowed: Sequence[str] | None) -> str:
    return "all" if allowed is None else ", ".join(allowed) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Models(Kind):
    """A list of allowed models, canonical ids; null is every model, an empty list none."""

    def add_option(self, parser: Options, member: Member, *, is_needed: bool) -> None:
        self._add_ways(parser, member, member.help)

    def add_setting(self, parser: Options, member: Member) -> None:
        models = self._add_ways(parser, member, f"{member.help}; replaces the list")
        models.add_argument(f"--{member.option}-all", action="store_true", help="allow every model")

    def _add_ways(
        self, parser: Options, member: Member, text: str
    ) -> argparse._MutuallyExclusiveGroup:
        models = parser.add_mutually_exclusive_group()
        models.add_argument(f"--{member.option}", metavar=self.metavar, action="append", help=text)
        models.add_argument(
            f"--{member.option}-none", action="store_true", help="allow no model at all"
        )
        return models

    def is_in(self, options: argparse.Namespace, member: Member) -> bool:
        names = (member.dest, f"{member.dest}_none", f"{member.dest}_all")
        return any(getattr(options, one) for one in names)

    def of_options(self, options: argparse.Namespace, member: Member) -> list[str] | None:
        is_none = getattr(options, f"{member.dest}_none")
        return [] if is_none else getattr(options, member.dest) or None

    def read_form(self, form: Form, member: Member) -> list[str] | None:
        if form.field(WHICH) != "some":
            return None
        return form.get_body_arguments(MODEL)[:MODELS_TICKED_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bases(Kind):
    """A list of knowledge bases, each once."""

    def add_option(self, parser: Options, member: Member, *, is_needed: bool) -> None:
        parser.add_argument(
            f"--{member.option}",
            metavar=self.metavar,
            action="append",
            default=[],
            help=member.help,
        )

    def add_setting(self, parser: Options, member: Member) -> None:
        ways, absent = parser.add_mutually_exclusive_group(), argparse.SUPPRESS
        ways.add_argument(
            f"--{member.option}",
            metavar=self.metavar,
            action="append",
            default=absent,
            help=f"{member.help}; the whole list",
        )
        ways.add_argument(
            f"--no-{member.option}",
            dest=member.dest,
            action="store_const",
            const=[],
            default=absent,
            help=member.none,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts(Kind):
    """A few amounts, set as a whole; null is none of them."""

    def add_setting(self, parser: Options, member: Member) -> None:
        ways, absent = parser.add_mutually_exclusive_group(), argparse.SUPPRESS
        ways.add_argument(
            f"--{member.option}",
            metavar=self.metavar,
            nargs="+",
            action="extend",
            default=absent,
            help=member.help,
        )
        ways.add_argument(
            "--none",
            dest=member.dest,
            action="store_const",
            const=[],
            default=absent,
            help=member.none,
        )

    def of_options(self, options: argparse.Namespace, member: Member) -> list[int]:
        return values.amounts(super(Amounts, self).of_options(options, member))


@dataclass(frozen=True, slots=True, kw_only=True)
class Percents(Kind):
    """A few whole percents, each once and in order; null or `none` is an empty list."""

    def add_option(self, parser: Options, member: Member, *, is_needed: bool) -> None:
        self._add(parser, member, None)

    def add_setting(self, parser: Options, member: Member) -> None:
        self._add(parser, member, argparse.SUPPRESS)

    def _add(self, parser: Options, member: Member, default: Any) -> None:
        parser.add_argument(
            f"--{member.option}",
            metavar=self.metavar,
            action="append",
            type=as_option(or_none(values.percent)),
            default=default,
            help=f"{member.help}; none: {member.none}",
        )

    def of_options(self, options: argparse.Namespace, member: Member) -> list[int]:
        given = getattr(options, member.dest)
        if given is None:
            return list(member.default)
        if None in given and len(given) > 1:
            raise Invalid(f"--{member.option}: none stands alone")
        return values.percents([one for one in given if one is not None])

    def read_form(self, form: Form, member: Member) -> list[int]:
        words = form.field(member.form).replace(",", " ").split()
        return values.percents([values.percent(word) for word in words])


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt(Kind):
    """A long text, of which the audit trail has the length alone; an option names its file."""

    def note(self, name: str, value: Any) -> tuple[str, Any]:
        return f"{name}_characters", len(value)


TEXT = Kind()
TEXTS = Kind(shown=list[str])
LABEL = Kind(json=values.Name, parse=values.label, decode=values.label, metavar="NAME")
ID = Kind(json=values.Id, parse=values.identifier, metavar="ID")
USER = Kind(json=values.User, parse=values.user_name, decode=values.user_name, metavar="NAME")
USD = Kind(
    json=values.Usd,
    sql="bigint",
    metavar="X",
    input=(("inputmode", "decimal"), ("pattern", "[0-9]+([.][0-9]{1,9})?")),
    parse=values.usd_or_more,
    decode=values.usd_or_more,
    show=format_usd,
    write=format_usd,
)
AMOUNTS = Amounts(
    json=values.Amounts,
    shown=list[str],
    sql="bigint[]",
    metavar="X",
    input=(("placeholder", "20 5"),),
    parse=lambda text: values.amounts(text.split()),
    decode=values.amounts,
    resolve=lambda amounts, registry: amounts or [],
    show=lambda amounts: [format_usd(one) for one in amounts],
    write=lambda amounts: " ".join(map(format_usd, amounts)),
    readable=lambda amounts: ", ".join(amounts) or "none",
)
SIGNED_USD = replace(
    USD,
    json=values.SignedUsd,
    input=(("inputmode", "decimal"), ("pattern", "-?[0-9]+([.][0-9]{1,9})?")),
    parse=values.usd,
    decode=values.usd,
)
REASON = Kind(
    json=values.Reason,
    characters_max=values.REASON_CHARACTERS_MAX,
    parse=values.read_reason,
    decode=values.read_reason,
)
COUNT = Kind(
    json=values.Limit,
    shown=int,
    sql="integer",
    metavar="N",
    input=(("inputmode", "numeric"), ("pattern", "[0-9]*")),
    parse=values.count,
)
INSTANT = Kind(
    json=values.Instant,
    shown=values.Instant,
    sql="timestamptz",
    metavar="RFC3339",
    input=(("placeholder", "2027-01-31"), ("pattern", r"\d{4}-\d\d-\d\d.*")),
    parse=values.instant,
    write=format_instant,
    parse_form=values.day_or_instant,
)
DEMAND = Kind(
    json=values.Demand,
    metavar="DEMAND",
    input=(("placeholder", "region=eu; retention=0"),),
    parse=values.demand,
    decode=values.demand,
)
FLAG = Flag(json=bool, shown=bool, sql="boolean", control="flag")
MODELS = Models(
    json=values.Models,
    shown=list[str],
    sql="text[]",
    metavar="MODEL",
    control="models",
    resolve=_canonical,
    readable=_readable_models,
)
MODEL_ID = Kind(
    json=values.Model,
    metavar="MODEL",
    resolve=lambda name, registry: values.read_chat_model(name, registry),
)
TEMPERATURE = Kind(
    json=values.Temperature, shown=float, sql="float8", metavar="T", parse=values.temperature
)
BASES = Bases(
    json=values.Bases,
    shown=list[str],
    sql="text[]",
    metavar="KB",
    decode=lambda ids: list(dict.fromkeys(ids)),
    show=list,
)
PERCENTS = Percents(
    json=values.Percents | None,
    shown=list[int],
    sql="smallint[]",
    metavar="PERCENT",
    input=(("inputmode", "numeric"), ("pattern", "[0-9, ]*")),
    decode=values.percents,
    resolve=lambda percents, _registry: percents or [],
    show=list,
    write=lambda percents: ", ".join(map(str, percents)),
)
PROMPT = Prompt(json=values.Prompt, metavar="FILE", parse=values.prompt_file, decode=values.prompt)
