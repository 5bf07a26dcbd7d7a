"""For whom a request is made: read once for each billed call, as its body is (reference 11.1).

A `ModelCall` reads the headers when it begins, before anything of the body is judged, and the
body's members when they are parsed. What a refused call's row has is read here as far as the
request came, without judging it again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw
from msgspec.structs import replace

from actors.wallet.attribution import NOBODY, Attribution
from channels.conversation import NAME_CHARACTERS_MAX, label_of, members_in, name_in
from channels.family import Family
from channels.json.weight import COUNTED_BYTES_MAX
from gw.api.services import Services
from gw.calls.attribution import HEADERS, end_user_in, read_headers
from gw.errors import GatewayError
from gw.http.tornado.headers import RequestHeaders, spelled

# Headers by which clients name a conversation; the first one present counts (reference 2.3).
CONVERSATION_HEADERS = (
    *("session_id", "session-id"),  # the documented one, and that of agents of the responses
    *("conversation_id", "thread-id"),  # protocol, older and newer
    "x-claude-code-session-id",
    *("x-session-id", "x-session-affinity", "x-opencode-session"),
)
HEADERS_READ = frozenset(map(spelled, HEADERS))


def attribution_in(headers: RequestHeaders) -> Attribution:
    """Return what the headers say, the end user as named. Raises GatewayError."""
    found: Attribution | None = headers.attribution
    if found is None:
        found = read_headers(headers.get_list) if headers.has_any(HEADERS_READ) else NOBODY
        headers.attribution = found  # requests of a connection that repeat their head share it
    return found


def conversation_in(headers: RequestHeaders) -> str | None:
    """Return the conversation's name in the client's headers (reference 2.3)."""
    for name in CONVERSATION_HEADERS:
        named: str | None = headers.get(name)
        if named:
            return named[:NAME_CHARACTERS_MAX]
    return None


def with_body(
    said: Attribution, family: Family, members: Mapping[str, Raw], services: Services, owner: str
) -> Attribution:
    """Return what headers and body say together; the end user as it is kept."""
    name = said.end_user or end_user_in(family, members)
    kept = services.end_users.kept(owner, name) if name else said.end_user
    return said if kept == said.end_user else replace(said, end_user=kept)


def of_refused(
    known: Attribution | None,
    *,
    family: Family,
    headers: RequestHeaders,
    body: bytes,
    services: Services,
    owner: str,
) -> Attribution:
    """Return what a refused call's row has; of headers that were refused it has nothing."""
    members = members_in(body) if 0 < len(body) <= COUNTED_BYTES_MAX else {}
    if known is None:
        try:
            said = attribution_in(headers)
        except GatewayError:
            said = NOBODY
        known = with_body(said, family, members, services, owner)
    if known.session is None and family.is_chat:
        named = conversation_in(headers) or name_in(members)
        if named:
            known = replace(known, session=label_of(named))
    return known
