"""Sign-in to the console: links that work once, and their sessions.

The database stores only digests of links and sessions, so that every process validates them and a
copy of the database is useless for signing in. A link is used by the button on its page, never by a
GET.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal

from actors.store.errors import ConstraintViolated
from actors.store.queries import load
from actors.store.session import Statements
from actors.wallet.ledger import UnknownAccount
from gw.admin import audit
from gw.admin.audit import Actor
from gw.config.addresses import ListenAddress
from gw.config.config import Config

SQL = load("gw.console", "console.sql")

# Long enough for pasting, too short for a link found in an old mail.
LINK_SECONDS = 15 * 60
# A session ends after this time in any case, and after the next one without a request.
SESSION_SECONDS = 12 * 3600
IDLE_SECONDS = 2 * 3600
# The shortest interval between two records of a session's use.
SEEN_SECONDS = 60
SESSIONS_SHOWN_MAX = 200
TOKEN_BYTES = 32
FORM_NUMBER_BYTES = 16
BROWSER_CHARACTERS_MAX = 200

Role = Literal["operator", "owner"]


@dataclass(frozen=True, slots=True)
class Session:
    """The user of a request. `account_id` is None for an operator, who sees everything."""

    id: str
    account_id: str | None
    account_name: str | None
    name: str
    origin: str
    last_seen_at: datetime

    @property
    def role(self) -> Role:
        """The visibility of the session: everything, or one account."""
        return "operator" if self.account_id is None else "owner"

    @property
    def owner(self) -> str:
        """The owner of what the session takes shares of (`channels/shares.py`)."""
        return self.account_id or f"session {self.id}"

    @property
    def is_operator(self) -> bool:
        """Whether the session sees every account, and objects without an account."""
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
    """Return the stored digest of a link or a session; any text has one."""
    return sha256(token.encode("utf-8", "replace")).digest()


def form_token(session_token: str, number: str = "") -> str:
    """Return the token of the forms of one page, which has a number of its own.

    It proves the session, from which nothing else can be derived.
    """
    number = number or secrets.token_hex(FORM_NUMBER_BYTES)
    proof = sha256(b"\0".join((b"csrf", number.encode(), session_token.encode("utf-8", "replace"))))
    return number + proof.hexdigest()


def is_form_token(given: str, session_token: str) -> bool:
    """Whether a token is one of this session's pages."""
    number = given[: 2 * FORM_NUMBER_BYTES].encode("ascii", "replace").decode()
    return hmac.compare_digest(given.encode(), form_token(session_token, number or "-").encode())


async def book_form(store: Statements, *form: str) -> bool:
    """Whether a form, by its page's token and what it is on the page, is booked for the first time.

    `store` is the transaction of what it asks for, so that a form that was refused may be sent
    again.
    """
    params = {"digest": digest("\0".join(form)), "seconds": SESSION_SECONDS}
    return await store.fetch_one(SQL["book_form"], params) is not None


async def make_link(session: Statements, actor: Actor, *, account_id: str | None) -> str:
    """Create a link's token; without an account it is an operator's. Raises UnknownAccount.

    `session` is a transaction.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    row = {
        "digest": digest(token),
        "account": account_id,
        "made_by": f"{actor.name}@{actor.origin}",
        "seconds": LINK_SECONDS,
    }
    try:
        await session.execute(SQL["make_link"], row)
    except ConstraintViolated as error:
        raise UnknownAccount(account_id) from error
    link_id = f"link_{digest(token).hex()[:16]}"
    details = {"role": "operator" if account_id is None else "owner"}
    await audit.note(
        session, actor, "console.link", link_id, account_id=account_id, details=details
    )
    return token


def base_url(config: Config, address: ListenAddress) -> str:
    """Return the console's URL: the configured one, else that of its listening address."""
    if config.console_url:
        return config.console_url
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    scheme = "http" if config.tls is None else "https"
    return f"{scheme}://{ListenAddress(host, address.port)}"


def link_url(base: str, token: str) -> str:
    """Return the URL of a link."""
    return f"{base}/sign-in/{token}"


async def is_good_link(store: Statements, token: str) -> bool:
    """Whether this link is valid. It is not used."""
    return await store.fetch_one(SQL["find_link"], (digest(token),)) is not None


async def sign_in(
    store: Statements, token: str, *, origin: str, browser: str
) -> tuple[str, Session] | None:
    """Use a link and open its session; return its token and the session, or None.

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
    """Return the session of a cookie; None if it is invalid or expired."""
    params = {"digest": digest(token), "idle": IDLE_SECONDS}
    row = await store.fetch_one(SQL["find_session"], params)
    return None if row is None else Session(*row)


async def see(store: Statements, session: Session, now: datetime) -> None:
    """Record the use of a session, at most once a minute."""
    if (now - session.last_seen_at).total_seconds() >= SEEN_SECONDS:
        await store.execute(SQL["see_session"], (session.id,))


async def list_open(store: Statements, account_id: str | None) -> list[OpenSession]:
    """Return the open sessions of an account's owners, or all of them; newest first."""
    params = {"account": account_id, "idle": IDLE_SECONDS, "limit": SESSIONS_SHOWN_MAX}
    return [OpenSession(*row) for row in await store.fetch_all(SQL["sessions"], params)]


async def end(store: Statements, session_id: str, account_id: str | None) -> bool:
    """End a session that an account's owner, or an operator, may end; False where there is none."""
    params = {"id": session_id, "account": account_id}
    return bool(await store.fetch_all(SQL["end_session"], params))
