"""A noun of operators: from one declaration of its members, all their forms.

The declaration is two dataclasses: what a new record is given, and the record as it is read. Made
from them are the bodies and the view of the admin API (msgspec structs, and so its OpenAPI), the
lists of columns in SQL, the options of commands, the fields of forms, and the audit's details.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Struct, UnsetType

from channels.registry import Registry
from gw.nouns.member import Form, Member, Options

N = TypeVar("N")
R = TypeVar("R")
Changes = Mapping[str, Any]
_COLUMN = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?( IS NOT NULL)?")


class MisstatedNoun(Exception):
    """A declaration that contradicts itself."""


@dataclass(frozen=True, slots=True)
class NothingGiven:
    """What a new record is given that no form, body or command creates."""


class Noun(Generic[N, R]):
    """A noun by the dataclasses of new records and of stored ones. Raises MisstatedNoun.

    The fields of `record` are the columns of a row in their order; `alias` is that of their table
    in statements. Changes are mappings from fields to values; an absent one stays.
    """

    New: type[Struct]
    Settings: type[Struct]
    View: type[Struct]

    def __init__(
        self,
        title: str,
        new: type[N],
        record: type[R],
        *,
        alias: str,
        settings_doc: str = "",
        new_title: str = "",
    ) -> None:
        self.title = title
        self._new, self._record = new, record
        of_new, of_record = _members_of(new), _members_of(record)
        members = _in_order({**of_record, **of_new}, first=of_new)
        self.new = [one for one in members if one.field in of_new]
        self.settable = [one for one in members if one.is_settable]
        self.shown = [one for one in members if one.is_shown and one.field in of_record]
        self._stored = [one for one in self.new if one.field in of_record]
        columns = [one.name for one in fields(record) if one.name in of_record]  # type: ignore[arg-type]
        self._columns = columns
        self.sql = self._sql([of_record[name] for name in columns], alias)
        self._make_structs(new_title or f"New{title}", settings_doc)

    def __repr__(self) -> str:
        return f"<Noun {self.title}>"

    def _make_structs(self, new_title: str, settings_doc: str) -> None:
        given = [one for one in self.new if one.is_given]
        self.New = _struct(
            new_title,
            self._new.__doc__,
            # Those without a default come first, as in every struct.
            [
                *((one.name, one.as_type(one.kind.json)) for one in given if one.is_required),
                *(
                    (one.name, one.as_type(one.kind.json), one.show(one.default))
                    for one in given
                    if not one.is_required
                ),
            ],
            forbid_unknown_fields=True,
        )
        self.Settings = _struct(
            f"{self.title}Settings",
            settings_doc,
            [
                (one.name, one.as_type(one.kind.json) | UnsetType, UNSET)
                for one in self.settable
                if one.is_given
            ],
            forbid_unknown_fields=True,
        )
        self.View = _struct(
            f"{self.title}View",
            self._record.__doc__,
            [(one.name, one.as_type(one.kind.shown)) for one in self.shown],
            frozen=True,
        )

    def _sql(self, columns: Sequence[Member], alias: str) -> Mapping[str, str]:
        """Return the parts of statements, for `actors.store.queries.load`."""
        return {
            "columns": ", ".join(
                one.column if "." in one.column else f"{alias}.{one.column}" for one in columns
            ),
            "new_columns": ", ".join(one.column for one in self._stored),
            "new_values": ", ".join(f"%({one.column})s::{one.kind.sql}" for one in self._stored),
            "new_fields": ", ".join(f"x.{one.column}" for one in self._stored),
            "new_types": ", ".join(f"{one.column} {one.kind.sql}" for one in self._stored),
            "settings": ", ".join(
                f"{one.column} = CASE WHEN %(set_{one.column})s"
                f" THEN %({one.column})s::{one.kind.sql} ELSE {one.column} END"
                for one in self.settable
            ),
        }

    def of_row(self, row: Sequence[Any]) -> R:
        """Return the record of a row of `columns`."""
        return self._record(**dict(zip(self._columns, row, strict=True)))

    def row_of(self, new: N) -> dict[str, Any]:
        """Return the parameters of `new_values`, or a row of `new_types`."""
        return {one.column: getattr(new, one.field) for one in self._stored}

    def settings_of(self, changes: Changes) -> dict[str, Any]:
        """Return the parameters of `settings`. Raises KeyError for what is no setting."""
        unknown = changes.keys() - {one.field for one in self.settable}
        if unknown:
            raise KeyError(f"no settings: {', '.join(sorted(unknown))}")
        params: dict[str, Any] = {}
        for one in self.settable:
            params[f"set_{one.column}"] = one.field in changes
            params[one.column] = changes.get(one.field)
        return params

    def new_of(self, body: Struct, registry: Registry) -> N:
        """Return what a body gives a new record. Raises Invalid, Refused."""
        return self._new(**dict(_decoded(self.new, body, registry)))

    def changes_of(self, body: Struct, registry: Registry) -> Changes:
        """Return the changes of a body. Raises Invalid, Refused."""
        return dict(_decoded(self.settable, body, registry))

    def view(self, record: R) -> Struct:
        """Return a record as the admin API shows it."""
        return self.View(**{one.name: one.show(getattr(record, one.field)) for one in self.shown})

    def record(self, record: R) -> dict[str, Any]:
        """Return the same in types of JSON."""
        shown: dict[str, Any] = msgspec.to_builtins(self.view(record))
        return shown

    def readable(self, record: R) -> dict[str, Any]:
        """Return the same for people."""
        shown = self.record(record)
        return {one.name: one.kind.readable(shown[one.name]) for one in self.shown}

    def add_options(self, parser: Options, *, is_needed: bool = True) -> None:
        """Add the options of a new record, required ones only if `is_needed`."""
        for one in self.new:
            if one.is_option:
                one.kind.add_option(parser, one, is_needed=is_needed)

    def of_options(self, options: Namespace, registry: Registry | None) -> N:
        """Return what options give a new record. Raises Invalid, Refused.

        Without a registry, the models are as they are written.
        """
        return self._new(
            **dict(_resolved([one for one in self.new if one.is_option], options, registry))
        )

    def add_settings(self, parser: Options, verb: str = "set") -> None:
        """Add the options of the settings of a command."""
        for one in self._settings_of(verb):
            one.kind.add_setting(parser, one)

    def changes_of_options(
        self, options: Namespace, registry: Registry | None, verb: str = "set"
    ) -> Changes:
        """Return the changes that options name. Raises Invalid, Refused."""
        named = [one for one in self._settings_of(verb) if one.kind.is_in(options, one)]
        return dict(_resolved(named, options, registry))

    def _settings_of(self, verb: str) -> list[Member]:
        return [one for one in self.settable if one.is_option and one.verb == verb]

    @property
    def form(self) -> list[Member]:
        """The members in forms."""
        return [one for one in self.settable if one.is_given and one.has_field]

    def of_form(self, form: Form, members: Iterable[Member], registry: Registry) -> Changes:
        """Return the values in a form. Raises Invalid, Refused."""
        return {
            one.field: one.kind.resolve(one.kind.read_form(form, one), registry) for one in members
        }

    def noted_new(self, new: N | R) -> dict[str, Any]:
        """Return a new record as the audit trail stores it."""
        return dict(
            one.kind.note(one.name, getattr(new, one.field)) for one in self.new if one.is_noted
        )

    def noted(self, changes: Changes) -> dict[str, Any]:
        """Return changes as the audit trail stores them."""
        named = [one for one in self.settable if one.field in changes and one.is_given]
        return dict(one.kind.note(one.name, changes[one.field]) for one in named)


def _struct(title: str, doc: str | None, members: Sequence[Any], **options: Any) -> type[Struct]:
    return msgspec.defstruct(title, members, namespace={"__doc__": doc}, module=__name__, **options)


def _members_of(declared: type) -> dict[str, Member]:
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


def _in_order(members: Mapping[str, Member], *, first: Iterable[str]) -> list[Member]:
    """Return members in the order of their declaration, new records' first, but for `before`."""
    names = list(dict.fromkeys([*first, *members]))
    for name, member in members.items():
        if member.before:
            names.remove(name)
            names.insert(names.index(member.before), name)
    return [members[name] for name in names]


def _decoded(members: Iterable[Member], body: Any, registry: Registry) -> Iterator[tuple[str, Any]]:
    """Yield fields and values of the members that a body has."""
    for one in members:
        value = getattr(body, one.name, UNSET)
        if value is not UNSET:
            decoded = None if value is None else one.kind.decode(value)
            yield one.field, one.kind.resolve(decoded, registry)


def _resolved(
    members: Iterable[Member], options: Namespace, registry: Registry | None
) -> Iterator[tuple[str, Any]]:
    """Yield fields and values of the members that options give."""
    for one in members:
        value = one.kind.of_options(options, one)
        yield one.field, value if registry is None else one.kind.resolve(value, registry)
