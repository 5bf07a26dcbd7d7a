"""Who is signed in to the console: links that work once, and the sessions they open.

The database keeps digests of links and sessions, so that every process knows them and a copy of
the database opens nothing. A link is used up by the button on its page, never by a look at it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal

from actors.store.connection import ConstraintViolated
from actors.store.database import Statements
from actors.store.queries import load
from actors.wallet.ledger import UnknownAccount
from gw.config.config import Config, ListenAddress

SQL = load("gw.console", "console.sql")

# Long enough to be pasted, too short to be found in an old mail.
LINK_SECONDS = 15 * 60
# A session ends after so long in any case, and after so long without a request.
SESSION_SECONDS = 12 * 3600
IDLE_SECONDS = 2 * 3600
# A use is written down at most so often.
SEEN_SECONDS = 60
SESSIONS_SHOWN_MAX = 200
TOKEN_BYTES = 32
BROWSER_CHARACTERS_MAX = 200

Role = Literal["operator", "owner"]


@dataclass(frozen=True, slots=True)
class Session:
    """Who makes a request. `account_id` is None of an operator, who sees everything."""

    id: str
    account_id: str | None
    account_name: str | None
    name: str
    origin: str
    last_seen_at: datetime

    @property
    def role(self) -> Role:
        """What the session may see: everything, or one account."""
        return "operator" if self.account_id is None else "owner"

    @property
    def is_operator(self) -> bool:
        """Whether the session sees every account, and what belongs to none."""
        return self.account_id is None


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session in the list; the columns of `sessions` in their order."""

    id: str
    account_id: str | None
    name: str
    origin: str
    browser: str
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime


def digest(token: str) -> bytes:
    """What is kept of a link or a session; any text has one."""
    return sha256(token.encode("utf-8", "replace")).digest()


def csrf_token(session_token: str) -> str:
    """The text that a form of this session carries; nothing else can be made of it."""
    return sha256(b"csrf\0" + session_token.encode("utf-8", "replace")).hexdigest()


async def make_link(store: Statements, *, account_id: str | None, made_by: str) -> str:
    """Make a link's token; without an account it is an operator's. Raises UnknownAccount."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    row = {
        "digest": digest(token),
        "account": account_id,
        "made_by": made_by,
        "seconds": LINK_SECONDS,
    }
    try:
        await store.execute(SQL["make_link"], row)
    except ConstraintViolated as error:
        raise UnknownAccount(account_id) from error
    return token


def base_url(config: Config, address: ListenAddress) -> str:
    """How the console is reached: by its configured address, else by the one it listens on."""
    if config.console_url:
        return config.console_url
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    scheme = "http" if config.tls is None else "https"
    return f"{scheme}://{ListenAddress(host, address.port)}"


def link_url(base: str, token: str) -> str:
    """The address that a link is opened by."""
    return f"{base}/sign-in/{token}"


async def is_good_link(store: Statements, token: str) -> bool:
    """Whether this link would sign in now. It stays as it is."""
    return await store.fetch_one(SQL["find_link"], (digest(token),)) is not None


async def sign_in(
    store: Statements, token: str, *, origin: str, browser: str
) -> tuple[str, Session] | None:
    """Use a link up and open its session: its token, and who it is; None for no good link.

    `store` is a transaction.
    """
    found = await store.fetch_one(SQL["use_link"], (digest(token),))
    if found is None:
        return None
    account_id, name = found
    session_token = secrets.token_urlsafe(TOKEN_BYTES)
    row = {
        "id": f"sess_{secrets.token_hex(8)}",
        "digest": digest(session_token),
        "account": account_id,
        "name": name,
        "origin": origin,
        "browser": "".join(filter(str.isprintable, browser))[:BROWSER_CHARACTERS_MAX],
        "seconds": SESSION_SECONDS,
    }
    await store.execute(SQL["open_session"], row)
    session = await find(store, session_token)
    assert session is not None
    return session_token, session


async def find(store: Statements, token: str) -> Session | None:
    """The session of a cookie; None when there is none, or it is over."""
    params = {"digest": digest(token), "idle": IDLE_SECONDS}
    row = await store.fetch_one(SQL["find_session"], params)
    return None if row is None else Session(*row)


async def see(store: Statements, session: Session, now: datetime) -> None:
    """Note that a session is in use, at most once a minute."""
    if (now - session.last_seen_at).total_seconds() >= SEEN_SECONDS:
        await store.execute(SQL["see_session"], (session.id,))


async def list_open(store: Statements, account_id: str | None) -> list[OpenSession]:
    """The open sessions of an account's owners, or of everyone; newest first."""
    params = {"account": account_id, "idle": IDLE_SECONDS, "limit": SESSIONS_SHOWN_MAX}
    return [OpenSession(*row) for row in await store.fetch_all(SQL["sessions"], params)]


async def end(store: Statements, session_id: str, account_id: str | None) -> bool:
    """End a session that an account's owner, or an operator, may end; False where there is none."""
    params = {"id": session_id, "account": account_id}
    return bool(await store.fetch_all(SQL["end_session"], params))
