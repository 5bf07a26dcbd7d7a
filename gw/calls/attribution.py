"""For whom a call is made, read from a request's headers and from its body (reference 11.1).

Headers are judged strictly, members of a body never: they are the providers' own, and a request
that an upstream would serve is not refused for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

import msgspec
from msgspec import Raw, Struct

from actors.wallet.attribution import (
    END_USER_CHARACTERS_MAX,
    LABEL_CHARACTERS_MAX,
    LABELS_MAX,
    RUN_CHARACTERS_MAX,
    Attribution,
    is_end_user,
    is_label_key,
    is_label_value,
    is_run,
)
from channels.conversation import METADATA_BYTES_MAX
from channels.family import Family
from gw.errors import INVALID_REQUEST, GatewayError
from gw.keys.end_users import EndUserKey

END_USER: Final = "x-gateway-end-user"
RUN: Final = "x-gateway-run"
LABELS: Final = "x-gateway-labels"
HEADERS: Final = (END_USER, RUN, LABELS)
# So many callers' headers are kept as they were read, unless they are longer than this together.
KEPT_MAX, KEPT_CHARACTERS_MAX = 2048, 512

# How an agent of the messages protocol names its user: by a device and an account, which may be
# missing, and a session.
_AGENT_USER = re.compile(
    r"user_(?P<device>[0-9a-f]+)_account_(?P<account>[0-9a-f-]{36})?_session_[0-9a-f-]{36}",
    re.IGNORECASE,
).fullmatch


class _AgentUser(Struct, gc=False):
    """The same in the agent's newer form."""

    device_id: object = None
    account_uuid: object = None
    session_id: object = None


class _Metadata(Struct, gc=False):
    user_id: object = None


_AGENT = msgspec.json.Decoder(_AgentUser)
_METADATA = msgspec.json.Decoder(_Metadata)


def read_headers(values: Callable[[str], Sequence[str]]) -> Attribution:
    """Return what the headers say; `values` returns those of a header, each as it was received.

    Raises GatewayError for a header that is malformed.
    """
    said = tuple(tuple(values(name)) for name in HEADERS)
    if sum(map(len, chain.from_iterable(said))) > KEPT_CHARACTERS_MAX:
        return _read.__wrapped__(*said)
    return _read(*said)


@lru_cache(KEPT_MAX)
def _read(end_users: Sequence[str], runs: Sequence[str], labels: Sequence[str]) -> Attribution:
    end_user = _one(END_USER, end_users)
    if end_user:
        end_user = _decoded(end_user)
        if not is_end_user(end_user):
            raise _refused(
                END_USER, f"takes 1 to {END_USER_CHARACTERS_MAX} printable characters in UTF-8."
            )
    run = _one(RUN, runs)
    if run and not is_run(run):
        raise _refused(
            RUN, f"takes 1 to {RUN_CHARACTERS_MAX} characters, of letters, digits and `._:/@-`."
        )
    return Attribution(end_user=end_user, run=run, labels=_labels(labels))


def end_user_in(family: Family, members: Mapping[str, Raw]) -> str | None:
    """Return the end user that a body names, of any length and form; None without one."""
    for name in family.end_users:
        value = members.get(name)
        if value is not None:
            found = _user_of(value) if name == "metadata" else _text(value)
            if found:
                return found
    return None


class EndUsers:
    """What is kept of an end user's name: itself, its digest, or nothing.

    A name that cannot be kept as it stands, because it is too long or unprintable, is its digest.
    """

    def __init__(self, key: EndUserKey, mode: Callable[[], str]) -> None:
        self.key = key
        self._mode = mode

    @property
    def mode(self) -> str:
        """How names are kept: `plain`, `digest` or `off`."""
        return self._mode()

    def kept(self, account_id: str, name: str | None) -> str | None:
        """Return what the account's rows and budgets have of a name."""
        if not name:
            return None
        mode = self._mode()
        if mode == "off":
            return None
        if mode == "digest" or not is_end_user(name):
            return self.key.digest(account_id, name)
        return name


def _one(header: str, values: Sequence[str]) -> str | None:
    if len(values) > 1:
        raise _refused(header, "is given more than once.")
    return values[0].strip(" \t") or None if values else None


def _decoded(value: str) -> str:
    """Return the text of a header's bytes, which are UTF-8; empty where they are not."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return ""


def _labels(values: Sequence[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in ",".join(values).split(",") if values else ():
        key, separator, value = pair.strip(" \t").partition("=")
        if not (key or separator):
            continue  # nothing between two commas
        if not separator or not is_label_key(key) or not is_label_value(value):
            raise _refused(
                LABELS,
                "takes pairs such as `team=search, feature=chat`: a key of 1 to 32 characters"
                f" `a-z0-9_.-` that begins with a letter, a value of 1 to {LABEL_CHARACTERS_MAX}"
                " characters, of letters, digits and `._:/@-`.",
            )
        if labels.setdefault(key, value) != value:
            raise _refused(LABELS, f"has two values of `{key}`.")
    if len(labels) > LABELS_MAX:
        raise _refused(LABELS, f"takes at most {LABELS_MAX} labels.")
    return labels


def _refused(header: str, why: str) -> GatewayError:
    return GatewayError(INVALID_REQUEST, f"{header} {why}", param=header)


def _text(value: Raw) -> str | None:
    if bytes(memoryview(value)[:1]) != b'"':
        return None
    return msgspec.json.decode(value, type=str)


def _user_of(metadata: Raw) -> str | None:
    if len(metadata) > METADATA_BYTES_MAX:
        return None
    try:
        name = _METADATA.decode(metadata).user_id
    except msgspec.MsgspecError:
        return None
    return _person_of(name) if isinstance(name, str) else None


def _person_of(name: str) -> str:
    """Return the person in the name that a coding agent sends, which has the session, too."""
    if found := _AGENT_USER(name):
        return found["account"] or found["device"]
    if name.startswith("{"):
        try:
            agent = _AGENT.decode(name)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return name
        for value in (agent.account_uuid, agent.device_id):
            if value and isinstance(value, str):
                return value
    return name
