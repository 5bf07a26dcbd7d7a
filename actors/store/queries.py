"""Loads the `.sql` file of a package into a mapping from query name to SQL.

`actors/store/database.py` runs the queries. A file looks like

    -- top_up --
    -- Credit an account and write the entry, together.
    UPDATE accounts SET …

with a header, one line of description, and the statement. Parameters are psycopg2's `%s` or
`%(name)s`; with parameters a literal percent sign is written `%%`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

HEADER = re.compile(r"^-- ([a-z][a-z0-9_]*) --$", re.MULTILINE)
PART = re.compile(r"\{\{([a-z_]+)\}\}")


class QueryFileFault(Exception):
    """A malformed query file; the message names file and query."""


def load(
    package: str, filename: str, parts: Mapping[str, str] = MappingProxyType({})
) -> Mapping[str, str]:
    """Return the queries of `filename` in the folder of `package`, by name.

    `{{name}}` in them is one of `parts`: lists of columns that the code declares. Raises
    QueryFileFault.
    """
    text = files(package).joinpath(filename).read_text(encoding="utf-8")
    try:
        whole = PART.sub(lambda found: parts[found[1]], text)
    except KeyError as error:
        raise QueryFileFault(f"{filename}: there is no part {error}") from error
    return parse(whole, filename)


def parse(text: str, filename: str) -> Mapping[str, str]:
    """Split the text of a query file. Raises QueryFileFault."""
    preamble, *rest = HEADER.split(text)
    if any(line.strip() and not line.startswith("--") for line in preamble.splitlines()):
        raise QueryFileFault(f"{filename}: SQL stands before the first `-- name --` header")
    queries: dict[str, str] = {}
    for name, section in zip(rest[::2], rest[1::2], strict=True):
        description, _, sql = section.lstrip("\n").partition("\n")
        if not re.match(r"-- \S", description):
            raise QueryFileFault(f"{filename}: {name} has no line on what it is for")
        if not re.search(r"^(?!--)\s*\S", sql, re.MULTILINE):
            raise QueryFileFault(f"{filename}: {name} has no SQL")
        if name in queries:
            raise QueryFileFault(f"{filename}: {name} stands there twice")
        queries[name] = sql.strip()
    return MappingProxyType(queries)
