"""Which events a webhook is sent: types exactly, or all of a group, as `GROUP.*`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from actors.events.kinds import CALL_SETTLED, TYPES
from gw.config.suggestions import closest
from gw.nouns.member import Form, Kind, Member, Options, as_option
from gw.nouns.refused import Invalid

TYPES_MAX = 100
# Without a choice: all but the one that is written of each call.
DEFAULT_TYPES = tuple(one for one in TYPES if one != CALL_SETTLED)
GROUPS = tuple(dict.fromkeys(f"{one.partition('.')[0]}.*" for one in TYPES))

EventTypes = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=100)]],
    Meta(min_length=1, max_length=TYPES_MAX, description="Types, or groups of them as GROUP.*"),
]


def read_type(text: str) -> str:
    """Read one type or group. Raises Invalid."""
    if text in TYPES or text in GROUPS:
        return text
    guess = closest(text, [*TYPES, *GROUPS])
    hint = f", did you mean {guess}?" if guess else ""
    raise Invalid(f"there is no type of events {text[:100]!a}{hint}")


def read_types(texts: Iterable[str]) -> list[str]:
    """Read types, each once. Raises Invalid."""
    return list(dict.fromkeys(read_type(one) for one in texts))


def _read_words(text: str) -> list[str]:
    return read_types(text.replace(",", " ").split())


@dataclass(frozen=True, slots=True, kw_only=True)
class TypesKind(Kind):
    """A list of types; null is every one but those of calls. In a form, words."""

    def add_option(self, parser: Options, member: Member, *, is_needed: bool) -> None:
        parser.add_argument(
            f"--{member.option}",
            metavar=self.metavar,
            action="append",
            type=as_option(read_type),
            help=member.help_of_new,
        )

    def add_setting(self, parser: Options, member: Member) -> None:
        ways, absent = parser.add_mutually_exclusive_group(), argparse.SUPPRESS
        ways.add_argument(
            f"--{member.option}",
            metavar=self.metavar,
            action="append",
            type=as_option(read_type),
            default=absent,
            help=f"{member.help}; the whole list",
        )
        ways.add_argument(
            f"--default-{member.option}s",
            dest=member.dest,
            action="store_const",
            const=None,
            default=absent,
            help=member.none,
        )

    def of_options(self, options: argparse.Namespace, member: Member) -> list[str] | None:
        given = getattr(options, member.dest)
        return None if given is None else read_types(given)

    def read_form(self, form: Form, member: Member) -> list[str] | None:
        return _read_words(form.field(member.form)) or None


TYPES_KIND = TypesKind(
    json=EventTypes,
    shown=list[str],
    sql="text[]",
    metavar="TYPE",
    characters_max=2000,
    parse=_read_words,
    decode=read_types,
    show=list,
    write=" ".join,
)
