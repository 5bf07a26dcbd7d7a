"""A noun of operators: from one declaration of its members, all their forms.

The declaration is two dataclasses: what a new record is given, and the record as it is read. Made
from them are the bodies and the view of the admin API (msgspec structs, and so its OpenAPI), the
lists of columns in SQL, the options of commands, the fields of forms, and the audit's details.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from channels.registry import Registry
from gw.nouns.given import Given, decoded_of, in_order, members_of, resolved_of, struct_of
from gw.nouns.member import Member, Options

N = TypeVar("N")
R = TypeVar("R")
Changes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NothingGiven:
    """What a new record is given that no form, body or command creates."""


class Noun(Given[N], Generic[N, R]):
    """A noun by the dataclasses of new records and of stored ones. Raises MisstatedNoun.

    The fields of `record` are the columns of a row in their order; `alias` is that of their table
    in statements. Changes are mappings from fields to values; an absent one stays.
    """

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
        self._record = record
        of_new, of_record = members_of(new), members_of(record)
        members = in_order({**of_record, **of_new}, first=of_new)
        of_new_members = [one for one in members if one.field in of_new]
        super().__init__(new_title or f"New{title}", new, members=of_new_members)
        self.settable = [one for one in members if one.is_settable]
        self.shown = [one for one in members if one.is_shown and one.field in of_record]
        self._stored = [one for one in self.new if one.field in of_record]
        columns = [one.name for one in fields(record) if one.name in of_record]  # type: ignore[arg-type]
        self._columns = columns
        self.sql = self._sql([of_record[name] for name in columns], alias)
        self._make_structs(settings_doc)

    def __repr__(self) -> str:
        return f"<Noun {self.title}>"

    def _make_structs(self, settings_doc: str) -> None:
        self.Settings = struct_of(
            f"{self.title}Settings",
            settings_doc,
            [
                (one.name, one.as_type(one.kind.json) | UnsetType, UNSET)
                for one in self.settable
                if one.is_given
            ],
            forbid_unknown_fields=True,
        )
        self.View = struct_of(
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

    def changes_of(self, body: Struct, registry: Registry) -> Changes:
        """Return the changes of a body. Raises Invalid, Refused."""
        return dict(decoded_of(self.settable, body, registry))

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

    def add_settings(self, parser: Options, verb: str = "set") -> None:
        """Add the options of the settings of a command."""
        for one in self._settings_of(verb):
            one.kind.add_setting(parser, one)

    def changes_of_options(
        self, options: Namespace, registry: Registry | None, verb: str = "set"
    ) -> Changes:
        """Return the changes that options name. Raises Invalid, Refused."""
        named = [one for one in self._settings_of(verb) if one.kind.is_in(options, one)]
        return dict(resolved_of(named, options, registry))

    def _settings_of(self, verb: str) -> list[Member]:
        return [one for one in self.settable if one.is_option and one.verb == verb]

    @property
    def form(self) -> list[Member]:
        """The members in forms."""
        return [one for one in self.settable if one.is_given and one.has_field]

    def noted(self, changes: Changes) -> dict[str, Any]:
        """Return changes as the audit trail stores them."""
        named = [one for one in self.settable if one.field in changes and one.is_given]
        return dict(one.kind.note(one.name, changes[one.field]) for one in named)
