"""What operators give: from one declaration of its members, all their forms.

The declaration is a dataclass. Made from it are the body of the admin API (a msgspec struct, and so
its OpenAPI), the options of a command, the fields of a form, and the audit's details.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Struct

from channels.registry import Registry
from gw.nouns.member import Form, Member, Options

N = TypeVar("N")
_COLUMN = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?( IS NOT NULL)?")


class MisstatedNoun(Exception):
    """A declaration that contradicts itself."""


class Given(Generic[N]):
    """What is given at once, such as a new record, by its dataclass. Raises MisstatedNoun.

    `New` is its body. `members` are those of the dataclass, in another order or other names.
    """

    New: type[Struct]

    def __init__(
        self, title: str, new: type[N], *, members: Sequence[Member] | None = None
    ) -> None:
        self._new = new
        self.new = list(members_of(new).values()) if members is None else list(members)
        given = [one for one in self.new if one.is_given]
        self.New = struct_of(
            title,
            new.__doc__,
            # Those without a default come first, as in every struct.
            [
                *((one.name, one.as_type(one.kind.json)) for one in given if one.is_required),
                *(
                    (one.name, one.as_type(one.kind.json), _default(one.show(one.default)))
                    for one in given
                    if not one.is_required
                ),
            ],
            forbid_unknown_fields=True,
        )

    def new_of(self, body: Struct, registry: Registry) -> N:
        """Return what a body gives. Raises Invalid, Refused."""
        return self._new(**dict(decoded_of(self.new, body, registry)))

    def add_options(self, parser: Options, *, is_needed: bool = True) -> None:
        """Add the options of what is given, required ones only if `is_needed`."""
        for one in self.new:
            if one.is_option:
                one.kind.add_option(parser, one, is_needed=is_needed)

    def of_options(self, options: Namespace, registry: Registry | None) -> N:
        """Return what options give. Raises Invalid, Refused.

        Without a registry, the models are as they are written.
        """
        return self._new(
            **dict(resolved_of([one for one in self.new if one.is_option], options, registry))
        )

    @property
    def new_form(self) -> list[Member]:
        """The members in forms of what is given."""
        return [one for one in self.new if one.is_given and one.has_field]

    def of_form(self, form: Form, members: Iterable[Member], registry: Registry) -> dict[str, Any]:
        """Return the values of these members in a form, by field. Raises Invalid, Refused."""
        return {
            one.field: one.kind.resolve(one.kind.read_form(form, one), registry) for one in members
        }

    def new_of_form(self, form: Form, registry: Registry) -> N:
        """Return what a form gives. Raises Invalid, Refused."""
        return self._new(**self.of_form(form, self.new_form, registry))

    def noted_new(self, new: Any) -> dict[str, Any]:
        """Return what is given as the audit trail stores it."""
        return dict(
            one.kind.note(one.name, getattr(new, one.field)) for one in self.new if one.is_noted
        )


def struct_of(title: str, doc: str | None, members: Sequence[Any], **options: Any) -> type[Struct]:
    """Return a struct of these members."""
    return msgspec.defstruct(title, members, namespace={"__doc__": doc}, module=__name__, **options)


def _default(value: Any) -> Any:
    """Return the default of a struct's member; of a list each struct has its own."""
    return msgspec.field(default_factory=value.copy) if isinstance(value, list) else value


def members_of(declared: type) -> dict[str, Member]:
    """Return the members of a dataclass and of its properties, by field."""
    found: dict[str, Member] = {}
    hints = get_type_hints(declared, include_extras=True)
    for one in fields(declared):
        default = NODEFAULT if one.default is MISSING else one.default
        if one.default_factory is not MISSING:
            default = one.default_factory()
        if get_origin(hints[one.name]) is Annotated:
            found[one.name] = _member(declared, one.name, hints[one.name], default)
    for base in reversed(declared.__mro__):
        for name, one in vars(base).items():
            if isinstance(one, property) and one.fget is not None:
                hint = get_type_hints(one.fget, include_extras=True)["return"]
                if get_origin(hint) is Annotated:
                    found[name] = _member(declared, name, hint, NODEFAULT)
    return found


def _member(declared: type, field: str, hint: Any, default: Any) -> Member:
    kind, stated = get_args(hint)
    assert isinstance(stated, Member)
    name = stated.name or field
    column = stated.column or field
    if _COLUMN.fullmatch(column) is None:
        raise MisstatedNoun(f"{declared.__name__}.{field}: {column!r} is no column")
    return replace(
        stated,
        field=field,
        name=name,
        column=column,
        option=stated.option or name.replace("_", "-"),
        form=stated.form or stated.option or name,
        is_nullable=type(None) in get_args(kind),
        default=default,
    )


def in_order(members: Mapping[str, Member], *, first: Iterable[str]) -> list[Member]:
    """Return members in the order of their declaration, new records' first, but for `before`."""
    names = list(dict.fromkeys([*first, *members]))
    for name, member in members.items():
        if member.before:
            names.remove(name)
            names.insert(names.index(member.before), name)
    return [members[name] for name in names]


def decoded_of(
    members: Iterable[Member], body: Any, registry: Registry
) -> Iterator[tuple[str, Any]]:
    """Yield fields and values of the members that a body has."""
    for one in members:
        value = getattr(body, one.name, UNSET)
        if value is not UNSET:
            decoded = None if value is None else one.kind.decode(value)
            yield one.field, one.kind.resolve(decoded, registry)


def resolved_of(
    members: Iterable[Member], options: Namespace, registry: Registry | None
) -> Iterator[tuple[str, Any]]:
    """Yield fields and values of the members that options give."""
    for one in members:
        value = one.kind.of_options(options, one)
        yield one.field, value if registry is None else one.kind.resolve(value, registry)
