"""`gw kb`: knowledge bases, imported from folders of Markdown, granted, exported, removed."""

from __future__ import annotations

import argparse
import re
import stat
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from actors.media_store.bucket import BucketFault
from gw.admin import bases
from gw.admin.audit import Actor
from gw.api.knowledge.services import make_sources
from gw.cli import arguments
from gw.cli.arguments import Verb, option
from gw.cli.context import Context
from gw.cli.failures import CommandRefused, UsageFault
from gw.cli.output import Result, sheet, table
from gw.keys.principal import OWNER
from gw.knowledge.bases import BASE, PERSONAL, BaseRecord, unresolved_links
from gw.knowledge.exporting import export_base
from gw.knowledge.folder import read_folder, unread
from gw.knowledge.importing import Imported, ImportTarget
from gw.knowledge.sources import SourceStore
from metrics.logs import EventLog, events_shown

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers

_KB_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
COLUMNS = ("kb_id", "user", "name", "pages", "sources", "restricted", "granted_to", "updated_at")
LOGGER = "gw.kb"


def kb_id(text: str) -> str:
    """Read the id of a named base."""
    if not _KB_ID.fullmatch(text) or text == PERSONAL:
        raise argparse.ArgumentTypeError(
            f"{text!a} is not an id of a base: 1 to 64 of a-z 0-9 . _ -, first a letter or digit,"
            f" and not {PERSONAL}"
        )
    return text


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    text = "import, grant, export and remove knowledge bases"
    arguments.add_verbs(nouns, "kb", text, _verbs())


def _verbs() -> Iterator[Verb]:
    of_account = arguments.account_of("whose base it is")
    base = [
        of_account,
        option("--kb", metavar="KB", type=kb_id, help="a named base"),
        option(
            "--user",
            metavar="NAME",
            type=arguments.user_name,
            help=f"whose personal base (default: {OWNER})",
        ),
    ]
    yield Verb(
        "import",
        "make a base what a folder of Markdown says, all or nothing",
        import_base,
        [
            *base,
            option("--name", metavar="TEXT", type=arguments.label, help="what the base is called"),
            option(
                "--restricted",
                action=argparse.BooleanOptionalAction,
                default=None,
                help="only users it is granted to may read it (default: as it is)",
            ),
            option("--keep", action="store_true", help="keep pages that have no file"),
            option("folder", metavar="DIR", type=Path, help="of Markdown files"),
        ],
        check_import,
    )
    yield Verb("list", "list the bases of an account", list_, [of_account])
    text = "show a base, and its links that lead nowhere"
    yield Verb("show", text, show, base, check_base)
    into = option("folder", metavar="DIR", type=Path, help="new, or empty")
    text = "write the pages and sources of a base into a new or empty folder"
    yield Verb("export", text, export, [*base, into], check_base)
    page = option("--page", metavar="PAGE", help="the id or an alias of a page")
    yield Verb("remove", "remove a base, or one page of it", remove, [*base, page], check_base)
    named = option("--kb", metavar="KB", type=kb_id, required=True, help="a named base")
    yield Verb("grant", "let others read a base", grant, [of_account, named, _add_grantee])
    yield Verb("revoke", "take a grant back", revoke, [of_account, named, _add_grantee])


def _add_grantee(parser: Parser) -> None:
    parser.set_defaults(user=None)
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument("--to-user", metavar="NAME", type=arguments.user_name, help="of this account")
    whom.add_argument(
        "--to-account", metavar="ID", type=arguments.identifier, help="all users of it"
    )


def check_base(options: Namespace) -> None:
    """Raise UsageFault for conflicting options."""
    if options.kb is not None and options.user is not None:
        raise UsageFault("--user names a personal base, which has no --kb")
    if options.kb is None and getattr(options, "restricted", None) is not None:
        raise UsageFault("--restricted goes with --kb: a personal base is its user's alone")


def check_import(options: Namespace) -> None:
    """Raise UsageFault for conflicting options, or a missing folder."""
    check_base(options)
    try:
        is_folder = stat.S_ISDIR(options.folder.stat().st_mode)
    except OSError as error:
        raise UsageFault(f"{options.folder} {unread(error)}") from error
    if not is_folder:
        raise UsageFault(f"{options.folder} is not a folder")


async def import_base(context: Context, options: Namespace) -> Result:
    config = context.config.kb_store
    folder = read_folder(options.folder, source_mb_max=config.max_source_mb)
    target = _target(options)
    with _disk_errors():
        done = await bases.import_pages(
            context.database,
            Actor.of_this_process(),
            target,
            folder,
            _sources(context),
            keep=options.keep,
        )
    _log(
        "kb.imported",
        account=target.account_id,
        kb=target.kb_id,
        pages=done.pages,
        added=done.added,
        changed=done.changed,
        removed=done.removed,
    )
    record = _imported(target, done)
    lines = [sheet({name: value for name, value in record.items() if name != "warnings"})]
    return Result(record, "\n".join([*lines, *(f"warning: {text}" for text in done.warnings)]))


async def list_(context: Context, options: Namespace) -> Result:
    found = await bases.list_all(context.database, options.account)
    records = [BASE.record(one) for one in found]
    return Result({"kbs": records}, table(records, COLUMNS))


async def show(context: Context, options: Namespace) -> Result:
    base = await _find(context, options)
    lost = await unresolved_links(context.database, base)
    record = BASE.record(base)
    unresolved = [{"id": page, "target": target} for page, target in lost]
    lines = [sheet(record), *(f"{page}: [[{target}]] leads nowhere" for page, target in lost)]
    return Result({**record, "unresolved": unresolved}, "\n".join(lines))


async def export(context: Context, options: Namespace) -> Result:
    base = await _find(context, options)
    with _disk_errors():
        pages = await export_base(context.database, base, _sources(context), options.folder)
    record = {"kb_id": base.kb_id, "user": base.user, "pages": pages, "folder": str(options.folder)}
    return Result(record, sheet(record))


async def remove(context: Context, options: Namespace) -> Result:
    target, actor = _target(options), Actor.of_this_process()
    removed = await bases.remove(
        context.database, actor, target, _sources(context), page=options.page
    )
    _log("kb.removed", account=target.account_id, kb=target.kb_id)
    record: dict[str, Any] = msgspec.to_builtins(removed)
    lines = [sheet({name: value for name, value in record.items() if name != "warnings"})]
    warnings = record.get("warnings", ())
    return Result(record, "\n".join([*lines, *(f"warning: {text}" for text in warnings)]))


async def grant(context: Context, options: Namespace) -> Result:
    whom = {"user": options.to_user, "account": options.to_account}
    async with context.change() as (session, actor):
        base = await bases.grant(session, actor, _target(options), **whom)
    _log("kb.granted", account=options.account, kb=base.kb_id)
    return _shown(base)


async def revoke(context: Context, options: Namespace) -> Result:
    whom = {"user": options.to_user, "account": options.to_account}
    async with context.change() as (session, actor):
        return _shown(await bases.revoke(session, actor, _target(options), **whom))


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Convert the system's errors of written files and read sources to refusals."""
    try:
        yield
    except BucketFault:
        raise
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise CommandRefused(text, "storage_failed") from error


def _log(action: str, **fields: object) -> None:
    """Log an event where an operator sees it: the log of a command goes nowhere else."""
    with events_shown(LOGGER, sys.stderr):
        EventLog(LOGGER).info(action, **fields)


def _imported(target: ImportTarget, done: Imported) -> Mapping[str, Any]:
    return {
        "account_id": target.account_id,
        "kb_id": target.kb_id,
        "user": target.user,
        "pages": done.pages,
        "added": done.added,
        "changed": done.changed,
        "unchanged": done.unchanged,
        "removed": done.removed,
        "sources": done.sources,
        "warnings": done.warnings,
    }


def _shown(base: BaseRecord) -> Result:
    record = BASE.record(base)
    return Result(record, sheet(record))


async def _find(context: Context, options: Namespace) -> BaseRecord:
    return await bases.find(context.database, _target(options))


def _target(options: Namespace) -> ImportTarget:
    name, is_restricted = getattr(options, "name", None), getattr(options, "restricted", None)
    if options.kb is not None:
        return ImportTarget(
            account_id=options.account, kb_id=options.kb, name=name, is_restricted=is_restricted
        )
    return ImportTarget(account_id=options.account, user=options.user or OWNER, name=name)


def _sources(context: Context) -> SourceStore:
    return make_sources(context.config)
