"""A member of a noun: what operators may do with a field of its record, and of which kind it is.

It stands in the field's annotation, `Annotated[int | None, Member(...)]`, once. The type says
whether null clears it, the class of new records whether it is given at creation, and the default
there whether it must be.

A value is stored as the tables have it. Operators write and see it as JSON in the admin API, as an
option of a command, as a field of a page's form, and in the audit trail. Reading has two steps,
since models are known only once the configuration is: `decode` (of JSON), `parse` (of a text) or
`read_form`, each without the configuration, then `resolve` with it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol, TypeVar

from msgspec import NODEFAULT

from channels.registry import Registry
from gw.nouns.refused import Invalid

T = TypeVar("T")


class Form(Protocol):
    """The fields that a page's form sent, without surrounding white space."""

    def field(self, name: str, /) -> str: ...

    def get_body_arguments(self, name: str, /) -> list[str]: ...


class Options(Protocol):
    """A parser, or a group of one."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action: ...

    def add_mutually_exclusive_group(self) -> argparse._MutuallyExclusiveGroup: ...


def as_option(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader of values that raises the error of `argparse`."""

    def reader(text: str) -> T:
        try:
            return read(text)
        except Invalid as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return reader


def or_none(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """Read `none` as None and any other text with `read`."""
    return lambda text: None if text == "none" else read(text)


def _same(value: Any) -> Any:
    return value


def _as_it_is(value: Any, registry: Registry) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind whose values are one text each, on a command line and in a form.

    `json` is the type of a value given in JSON, `shown` that of one shown, `sql` that of its
    column; `control` is its part of `templates/members.html`.
    """

    json: Any = str
    shown: Any = str
    sql: str = "text"
    metavar: str = "TEXT"
    control: str = "text"
    characters_max: int = 200  # of its element in a form
    # Attributes of its element in a form.
    input: Sequence[tuple[str, str]] = ()
    parse: Callable[[str], Any] = str
    decode: Callable[[Any], Any] = _same
    resolve: Callable[[Any, Registry], Any] = _as_it_is
    show: Callable[[Any], Any] = _same
    # The text of a value in a form, where its JSON is none.
    write: Callable[[Any], str] = str
    # For people, where JSON is not plain enough.
    readable: Callable[[Any], Any] = _same
    # A form's text where it may be written in more ways than an option.
    parse_form: Callable[[str], Any] | None = None

    def note(self, name: str, value: Any) -> tuple[str, Any]:
        """Return the member as the audit trail stores it."""
        return name, None if value is None else self.show(value)

    def add_option(self, parser: Options, member: Member, *, is_needed: bool) -> None:
        """Add the option of a new record's member."""
        settings = {"type": as_option(self.parse), "help": member.help_of_new, **self._choices()}
        if member.is_positional:
            parser.add_argument(member.dest, **settings)
            return
        parser.add_argument(
            f"--{member.option}",
            required=is_needed and member.is_required,
            default=None if member.is_required else member.default,
            **settings,
        )

    def add_setting(self, parser: Options, member: Member) -> None:
        """Add the option of a setting; one that is not given sets no attribute."""
        choices, read = self._choices(), self.parse
        if member.is_nullable:
            choices = {name: f"{one}|none" for name, one in choices.items()}
            read = or_none(read)
        parser.add_argument(
            f"--{member.option}",
            type=as_option(read),
            default=argparse.SUPPRESS,
            help=member.help_of_setting,
            **choices,
        )

    def is_in(self, options: argparse.Namespace, member: Member) -> bool:
        """Whether a setting is given."""
        return member.dest in options

    def of_options(self, options: argparse.Namespace, member: Member) -> Any:
        """Return the value that the options give."""
        return getattr(options, member.dest)

    def read_form(self, form: Form, member: Member) -> Any:
        """Return the value of a form's field; an empty one is null, or the default.

        Raises Invalid.
        """
        text = form.field(member.form)
        if not text and member.is_nullable:
            return None
        if not text and not member.is_required:
            return member.default
        return (self.parse_form or self.parse)(text)

    def _choices(self) -> dict[str, Any]:
        return {"metavar": self.metavar}


@dataclass(frozen=True, slots=True)
class Member:
    """A member, with the help of its option. Names are the field's, unless others are given.

    `name` is that of the admin API, of JSON and of the audit trail; `column` may be an expression
    of SQL; `option` is that of commands, without dashes, `form` the field of a page's form. `none`
    says what null means, of a flag what false does. `verb` is the command that sets it. `before`
    names the field that it precedes in what is shown.
    """

    kind: Kind
    help: str = ""
    _: KW_ONLY
    name: str = ""
    column: str = ""
    option: str = ""
    form: str = ""
    none: str = ""
    verb: str = "set"
    before: str = ""
    has_option: bool = True
    has_field: bool = True  # in forms
    is_positional: bool = False  # on the command line
    is_given: bool = True  # by operators; else by the code alone
    is_settable: bool = False
    is_shown: bool = True
    is_noted: bool = True  # in the audit trail of a creation

    # Of the field, found by the noun.
    field: str = ""
    is_nullable: bool = False
    default: Any = NODEFAULT

    @property
    def is_required(self) -> bool:
        """Whether a new record needs it."""
        return self.default is NODEFAULT

    @property
    def dest(self) -> str:
        """The name of its option among the parsed ones."""
        return self.option.replace("-", "_")

    @property
    def help_of_new(self) -> str:
        """The help of its option for a new record."""
        return f"{self.help} (default: {self.none})" if self.none else self.help

    @property
    def help_of_setting(self) -> str:
        """The help of its option for a change."""
        return f"{self.help}; none: {self.none}" if self.none else self.help

    @property
    def is_option(self) -> bool:
        """Whether a command has an option of it."""
        return self.is_given and self.has_option

    def as_type(self, kind: Any) -> Any:
        """Return a type of JSON with null, if the member may be."""
        return kind | None if self.is_nullable else kind

    def value_of(self, record: Any) -> Any:
        """Return the value that a form begins with: a record's, or without one the default."""
        if record is not None:
            return getattr(record, self.field)
        return None if self.is_required else self.default

    def show(self, value: Any) -> Any:
        """Return a value as JSON shows it."""
        return None if value is None else self.kind.show(value)


@dataclass(frozen=True, slots=True)
class Setting(Member):
    """A member that is changed later."""

    is_settable: bool = True
