"""A database of ten million rows of one account, and what the call log and budgets ask of it.

    python -m loadtests logs FOLDER [--rows 11200000] [--plans FILE] [--pages]

A PostgreSQL of its own with the gateway's settings runs in FOLDER, which is filled when it is
empty and used as it is otherwise. Nine rows in ten are of the account that is asked about; the
default makes ten million of those, of ten thousand end users, and wants 20 GB. Prints milliseconds
of database time, planning included; FILE gets the plans. With `--pages` a gateway serves the
console's pages, as to an operator and to the owner of that account, summaries by groups, and the
lists of a thousand budgets over it, and their times, the CPU of the gateway's process and their
sizes are printed.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from html import unescape
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any, cast
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

import yaml
from tornado.escape import parse_qs_bytes

from actors.partitions import build_spans
from actors.store.database import Database
from actors.store.queries import load
from actors.store.schema import migrate
from gw.api.logs.cursor import CursorSeal, LogCursor, PagePosition
from gw.api.logs.list_query import LogListQuery, read_list_query
from gw.api.logs.pages import read_page
from gw.api.logs.summary import read_summary_query, read_sums
from gw.api.logs.visibility import Scope, Visibility
from gw.keys.end_users import EndUserKey
from loadtests.rig.machine import cpu_seconds, free_ports
from loadtests.rig.process import started
from loadtests.rig.processes import gw, serve
from loadtests.rig.targets import database_in

SQL = load("loadtests.logs", "fill.sql")
BATCH_ROWS = 100_000
DAYS = 31  # more than the 30 that are asked for, so that the window's first edge lies among rows


async def fill(database: Database, rows: int) -> datetime:
    """Write so many rows that end now; return that instant."""
    until = datetime.now(UTC)
    months = DAYS // 28 + 2
    await database.execute(
        "SELECT call_logs_make_partitions(%s, %s)", ((until - timedelta(days=DAYS)).date(), months)
    )
    await database.execute(SQL["accounts"])
    for first in range(1, rows + 1, BATCH_ROWS):
        last = min(rows, first + BATCH_ROWS - 1)
        await database.execute(
            SQL["rows"], {"first": first, "last": last, "total": rows, "days": DAYS, "until": until}
        )
        if last % 1_000_000 == 0 or last == rows:
            print(f"{last} rows", flush=True)
    await database.execute(SQL["days"], {"until": until, "days": DAYS})
    await build_spans(database)
    for table in ("logs", "log_rollups", "log_attributed", "log_attributed_spans"):
        await database.execute(f"VACUUM (ANALYZE) call_{table}")
    return until


async def make_budgets(database: Database) -> None:
    """Make a thousand budgets of the account that is asked about, in their present periods."""
    for part in ("forget_budgets", "budgets", "sums"):
        await database.execute(SQL[part])
    await database.execute("VACUUM (ANALYZE) budget_sums")


ROUNDS = 3
END_USERS = EndUserKey(b"a key for tests only")
SEAL = CursorSeal(b"of no use to anybody else")
_MILLISECONDS = re.compile(r"(?:Planning|Execution) Time: ([\d.]+) ms")

# What is asked -> its query string; key_1 of acct_0 asks.
LISTS: Mapping[str, str] = {
    "first page of an account": "scope=account",
    "first page of a key": "",
    "200 rows, oldest first": "scope=account&order=asc&limit=200",
    "page in the middle": "scope=account&limit=200&cursor=middle",
    "a key that made a few calls": "scope=account&key_id=key_4",
    "errors": "scope=account&status=error",
    "a rare status": "scope=account&status=interrupted",
    "a rare model": "scope=account&model=rare-model",
    "three models, one of them rare": "scope=account&model=rare-model,model-3,model-4",
    "a model that was interrupted": "scope=account&model=model-3&status=interrupted&limit=200",
    "a rare error of one key": "error_code=upstream_529&limit=200",
    "errors of a model that had few": "scope=account&status=error&model=rare-model",
    "nothing there": "scope=account&status=error&unit_type=music&period=all",
    "what is billed by tokens": "scope=account&unit_type=chat&limit=200",
    "images of one key": "unit_type=image&limit=200",
    "one call by its trace id": "ref=0000000000000000000000000000c351",
    "one call by its task id": "scope=account&ref=task_50001",
}
GROUPS = ("end_user", "session", "label.team", "key", "model", "user")
SUMMARIES: Mapping[str, str] = {
    "summary of 30 days of an account": "scope=account",
    "summary of 30 days of a key": "",
    "summary of this month": "scope=account&period=this_month",
    "summary of a year": "scope=account&from=2026-01-01&to=2026-12-31",
    **{
        f"30 days of {whose} by {by}": f"{query}by={by}"
        for whose, query in (("an account", "scope=account&"), ("a key", ""))
        for by in GROUPS
    },
}


class Explained:
    """Stands where the database would, and explains each statement before it answers it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.plans: list[str] = []

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        lines = await self._database.fetch_all(
            f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {sql}", params
        )
        self.plans.append("\n".join(line for (line,) in lines))
        return await self._database.fetch_all(sql, params)


def milliseconds(plans: list[str]) -> float:
    """What the database needed for these, planning included."""
    return sum(float(found) for plan in plans for found in _MILLISECONDS.findall(plan))


async def explain(database: Database, now: datetime) -> dict[str, tuple[list[float], list[str]]]:
    """For each question: the milliseconds of each round, and the plans of the last."""
    found: dict[str, tuple[list[float], list[str]]] = {}
    for name, query in {**LISTS, **SUMMARIES}.items():
        times = []
        plans: list[str] = []
        for _ in range(ROUNDS):
            explained = Explained(database)
            await _ask(cast(Database, explained), name, query, now)
            plans = explained.plans
            times.append(milliseconds(plans))
        found[name] = (times, plans)
    return found


async def _ask(database: Database, name: str, query: str, now: datetime) -> None:
    if name in SUMMARIES:
        request = read_summary_query(parse_qs_bytes(query), see=_see, now=now)
        await read_sums(database, request.visibility, request.window, now, request.by)
    else:
        await read_page(database, _list_query(query, now))


def _list_query(query: str, now: datetime) -> LogListQuery:
    if "cursor=middle" in query:
        first = _list_query("scope=account", now)
        middle = first.window.start + (first.window.end - first.window.start) / 2
        cursor = LogCursor(first.window, first.order, PagePosition(middle, 2**40))
        query = query.replace("cursor=middle", "cursor=" + SEAL.write(cursor, first.visibility))
    return read_list_query(parse_qs_bytes(query), see=_see, seal=SEAL, end_users=END_USERS, now=now)


def _see(scope: Scope) -> Visibility:
    return Visibility(scope, "acct_0", "key_1" if scope == "key" else None)


OPENINGS = 5
SECONDS = 120
CONFIGURATION = """\
listen: 127.0.0.1:{}
admin_listen: 127.0.0.1:{}
console_listen: 127.0.0.1:{}
data_dir: .
channels: []
models: []
"""
ACCOUNT_ID = "acct_0"
ACCOUNT = f"/accounts/{ACCOUNT_ID}"
BUDGETS = f"{ACCOUNT}/budgets"
TRACE = "0000000000000000000000000000c351"  # of the 50,001st row
PATHS = (
    "/",
    "/accounts",
    ACCOUNT,
    f"{ACCOUNT}/keys",
    f"{ACCOUNT}/keys/key_0",
    f"{ACCOUNT}/calls",
    f"{ACCOUNT}/calls?period=all",
    f"{ACCOUNT}/calls?status=error",
    f"{ACCOUNT}/calls?model=rare-model&period=all",
    f"{ACCOUNT}/calls?key_id=key_4",
    f"{ACCOUNT}/calls?end_user=user-77@example.com",
    *(f"{ACCOUNT}/usage?by={by}" for by in GROUPS),
    BUDGETS,
    f"{BUDGETS}?page=5",
    f"{BUDGETS}/bud_2",
    "/calls",
    "/channels",
    "/models",
    "/playground",
    "/requests",
    "/tokens",
    "/system",
    "/agents",
    "/bases",
    "/tasks",
    "/audit",
    "/sessions",
    f"/search?q={TRACE}",
    f"{ACCOUNT}/statement.csv?period=today",
)
OWNER_PATHS = ("/", ACCOUNT, f"{ACCOUNT}/calls", f"{ACCOUNT}/usage", BUDGETS, "/audit")


def time_pages(folder: Path) -> None:
    """Start a gateway on the folder, open every page some times, print what each took."""
    config = folder / "gw.yaml"
    config.write_text(CONFIGURATION.format(*free_ports(3)), encoding="utf-8")
    with started(serve(config)) as gateway:
        pid = gateway.pid
        base, operator = _sign_in(config, "--operator")
        print(f"{'page':50} {'first ms':>9} {'then ms':>9} {'CPU ms':>8} {'kB':>6}")
        for path in PATHS:
            _report(operator, base, path, pid)
        listed = _open(operator, f"{base}{ACCOUNT}/calls?period=all").decode()
        for pattern in (r'href="(/calls/\d+)"', r'href="([^"]*cursor=[^"]*)"'):
            for path in re.findall(pattern, listed)[:1]:
                _report(operator, base, unescape(path), pid)
        base, owner = _sign_in(config, "--account", ACCOUNT_ID)
        for path in OWNER_PATHS:
            _report(owner, base, path, pid, whose=" (owner)")
        _report_api(config, pid)


def _report_api(config: Path, pid: int) -> None:
    """The same of both APIs. No two windows are equal, because summaries are cached."""
    key = gw(config, "key", "create", "--account", ACCOUNT_ID, "--name", "reader", "--account-logs")
    token = gw(config, "admin", "token", "create", "--name", "reader", "--scope", "read")
    client, admin = (_bearer(text) for text in (key["key"], token["token"]))
    config_of = yaml.safe_load(config.read_text(encoding="utf-8"))
    base, admin_base = (f"http://{config_of[name]}" for name in ("listen", "admin_listen"))
    until = datetime.now(UTC)
    seconds = iter(range(1_000_000))

    def window() -> str:
        end = until - timedelta(seconds=next(seconds))
        start = end - timedelta(days=30)
        return f"from={start:%Y-%m-%dT%H:%M:%SZ}&to={end:%Y-%m-%dT%H:%M:%SZ}"

    for by in GROUPS:
        path = f"/v1/logs/summary?scope=account&by={by}&"
        _report(client, base, path, pid, more=window)
    _report(client, base, "/v1/budgets", pid)
    admin_path = f"/admin/v1/accounts/{ACCOUNT_ID}/usage?by=end_user&"
    _report(admin, admin_base, admin_path, pid, more=window)
    _report(admin, admin_base, f"/admin/v1/budgets?account_id={ACCOUNT_ID}&limit=200", pid)
    _report(admin, admin_base, "/admin/v1/budgets/bud_2/sums?limit=200", pid)


def _bearer(text: str) -> OpenerDirector:
    """What sends a key or a token with each request."""
    web = build_opener()
    web.addheaders = [("Authorization", f"Bearer {text}")]
    return web


def _sign_in(config: Path, *whom: str) -> tuple[str, OpenerDirector]:
    """The console's address, and a browser that has signed in."""
    url = gw(config, "console", "link", *whom)["url"]
    web = build_opener(HTTPCookieProcessor(CookieJar()))
    with web.open(Request(url, method="POST"), timeout=SECONDS):
        return url.partition("/sign-in")[0], web


def _report(
    web: OpenerDirector,
    base: str,
    path: str,
    pid: int,
    *,
    whose: str = "",
    more: Callable[[], str] = str,
) -> None:
    """Print what a page took; `more` is appended to its path, anew each time."""
    times, page = [], b""
    before = cpu_seconds(pid)
    for _ in range(OPENINGS):
        began = time.perf_counter()
        page = _open(web, base + path + more())
        times.append((time.perf_counter() - began) * 1000)
    cpu_ms = (cpu_seconds(pid) - before) * 1000 / OPENINGS
    shown = path.partition("cursor=")[0] + whose
    print(f"{shown:50} {times[0]:9.1f} {min(times):9.1f} {cpu_ms:8.1f} {len(page) / 1000:6.1f}")


def _open(web: OpenerDirector, url: str) -> bytes:
    with web.open(url, timeout=SECONDS) as response:
        page: bytes = response.read()
        return page


# Only for the filling: fewer checkpoints.
SETTINGS = {"max_wal_size": "8GB"}


def logs(
    folder: Path, rows: int = 11_200_000, plans: Path | None = None, pages: bool = False
) -> None:
    """Fill if need be, explain, print."""
    folder.mkdir(parents=True, exist_ok=True)
    responses = asyncio.run(_explained(folder, rows))
    print(f"{'asked for':40} {'first ms':>9} {'then ms':>9}")
    for name, (times, _) in responses.items():
        print(f"{name:40} {times[0]:9.1f} {min(times[1:]):9.1f}")
    if plans is not None:
        text = "\n\n".join(f"## {name}\n\n" + "\n\n".join(p) for name, (_, p) in responses.items())
        plans.write_text(text + "\n", encoding="utf-8")
    if pages:
        time_pages(folder)


async def _explained(folder: Path, rows: int) -> dict[str, tuple[list[float], list[str]]]:
    async with database_in(folder, settings=SETTINGS, size=1, statement_seconds=600.0) as database:
        await migrate(database)
        found = await database.fetch_one("SELECT max(created_at) FROM call_logs")
        until = found[0] if found is not None else None
        until = until or await fill(database, rows)
        await make_budgets(database)
        return await explain(database, until)
