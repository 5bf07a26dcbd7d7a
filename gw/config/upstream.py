"""Readers of how a channel's requests are addressed: paths, authentication, headers and query.

A value from an environment variable is a secret, and is redacted wherever a key is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from channels import credentials, data_promise
from channels.authorizers.specs import AWS_SIGV4, AZURE_AD, GOOGLE_SERVICE_ACCOUNT
from channels.dialects.address import MODEL
from channels.dialects.table import DIALECTS
from channels.http.transport import Proxy
from gw.config import nodes, readers
from gw.config.faults import Location
from gw.config.mappings import attempt, listing, placed
from gw.config.suggestions import suggestion

FIELDS_MAX = 32
KEYS_MAX = 100
PROXY_ALLOWED = "http://[user:password@]host:port, or empty for no proxy"

# The headers of the schemes below.
PROOF_HEADERS = ("authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token")
# Signed requests, or tokens that expire: `credentials.py`.
PROVED = (AWS_SIGV4, GOOGLE_SERVICE_ACCOUNT, AZURE_AD)
_AUTHS = (*credentials.KEY_HEADERS, f"{credentials.QUERY_AUTH}NAME", *PROVED, credentials.NO_AUTH)
_AUTH_ALLOWED = f"one of {', '.join(_AUTHS)}"
_PARAMETER = re.compile(r"[A-Za-z0-9_.~-]{1,100}", re.ASCII)
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}", re.ASCII)
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,99}", re.ASCII)
# Fields whose name ends in such a word are secret, even if the file contains the value.
_SECRET_NAME = re.compile(
    r"(?:.*[-_.])?(?:(?:api|access|auth)?(?:key|token)|secret|passwd|password|auth|authorization"
    r"|cookie|credentials?|sig|signature)",
    re.IGNORECASE | re.ASCII,
)
# The scheme before a secret in a header, which is not secret.
_SCHEME = re.compile(r"\A(?:ApiKey|Basic|Bearer|Key|Token) +(?=.)", re.IGNORECASE | re.ASCII)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_PATH = re.compile(
    r"(?:/(?!\.{1,2}(?:/|\Z))(?:[\w.~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|\{model\})+)+", re.ASCII
)
# Headers of each request or connection, which the gateway writes itself.
OWN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)


@dataclass(frozen=True, slots=True)
class Fields:
    """Headers or parameters in the order of the file, and the secrets among them.

    Secrets are values from environment variables, and those of fields with a secret's name.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    secrets: frozenset[str] = frozenset()


NameCheck: TypeAlias = Callable[[str], str]


def api_keys() -> readers.Reader[tuple[str, ...]]:
    """Read a key or a list of non-empty keys; an empty text is no key."""
    read_one = readers.header_text("the upstream's key", may_be_empty=True, secret=True)
    read_many = listing(
        placed(readers.header_text("a key", secret=True)), "a key, or a list of keys"
    )

    def read(node: nodes.Node, at: Location) -> tuple[str, ...]:
        if not isinstance(node, nodes.Items):
            return (key,) if (key := read_one(node, at)) else ()
        if not 0 < len(node.items) <= KEYS_MAX:
            raise readers.InvalidValue(
                found=nodes.described(node), allowed=f"a key, or 1 to {KEYS_MAX} of them"
            )
        keys: dict[str, None] = {}
        for one in read_many(node, at):
            if one.value in keys:
                one.at.blame(found="a key again (not shown)", allowed="each key once")
            keys[one.value] = None
        return tuple(keys)

    return read


def auth() -> readers.Reader[str]:
    """Read the scheme by which the key is sent."""

    def read(node: nodes.Node, at: Location) -> str:
        value = readers.written_text(node, _AUTH_ALLOWED)
        if value in credentials.KEY_HEADERS or value in PROVED or value == credentials.NO_AUTH:
            return value
        name = value.removeprefix(credentials.QUERY_AUTH)
        if name == value or not _PARAMETER.fullmatch(name):
            raise readers.InvalidValue(
                found=nodes.described(node), allowed=_AUTH_ALLOWED, hint=suggestion(value, _AUTHS)
            )
        return value

    return read


def key_fields(way: str | None, protocols: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the headers and the parameters that carry the credentials, in lower case."""
    if way == credentials.NO_AUTH:
        return set(), set()
    if way in PROVED:
        return set(PROOF_HEADERS), set()
    if way is not None and way.startswith(credentials.QUERY_AUTH):
        return set(), {way.removeprefix(credentials.QUERY_AUTH).lower()}
    if way is not None:
        return {credentials.KEY_HEADERS[way]("")[0].lower()}, set()
    makers = [
        DIALECTS[one].address.key if one in DIALECTS else credentials.bearer for one in protocols
    ]
    return {make("")[0].lower() for make in makers}, set()


def path(*, names_model: bool) -> readers.Reader[str]:
    """Read the whole path of a protocol; MODEL is required in it if `names_model`."""
    allowed = f"a path from / on, without a query; {MODEL} stands for the upstream's model"
    if names_model:
        allowed = f"a path from / on with {MODEL} in it, up to the colon of the method"

    def read(node: nodes.Node, at: Location) -> str:
        value = readers.written_text(node, allowed)
        if not _PATH.fullmatch(value) or value.count(MODEL) > 1:
            hint = "fixed parameters belong under query" if "?" in value else ""
            raise readers.InvalidValue(found=nodes.described(node), allowed=allowed, hint=hint)
        if names_model and MODEL not in value:
            raise readers.InvalidValue(found=nodes.described(node), allowed=allowed)
        return value

    return read


def region() -> readers.Reader[str]:
    """Read a part of a provider's hosts and paths."""
    return _part("a region, such as us-east-1: letters, digits, dots and -", _REGION)


def data_region() -> readers.Reader[str]:
    """Read the name of a region that a channel promises not to leave."""
    most = data_promise.REGION_CHARACTERS_MAX
    allowed = f"a name, such as eu: 1 to {most} characters a-z0-9- that begin with a letter"
    return _part(allowed, data_promise.REGION)


def project() -> readers.Reader[str]:
    """Read a part of a provider's paths."""
    return _part("a project's id: letters, digits, dots, colons and -", _PROJECT)


def _part(allowed: str, pattern: re.Pattern[str]) -> readers.Reader[str]:
    def read(node: nodes.Node, at: Location) -> str:
        value = readers.written_text(node, allowed)
        if not pattern.fullmatch(value):
            raise readers.InvalidValue(found=nodes.described(node), allowed=allowed)
        return value

    return read


def proxy() -> readers.Reader[str]:
    """Read a proxy's URL, which may contain a password; an empty text means no proxy."""
    read_text = readers.text(PROXY_ALLOWED, may_be_empty=True, secret=True)

    def read(node: nodes.Node, at: Location) -> str:
        value = read_text(node, at)
        if value and not is_proxy(value):
            raise readers.InvalidValue(found="text (not shown) that is none", allowed=PROXY_ALLOWED)
        return value

    return read


def is_proxy(url: str) -> bool:
    """Whether the URL is valid for a proxy."""
    try:
        Proxy.of(url)
    except ValueError:
        return False
    return True


def headers() -> readers.Reader[Fields]:
    """Read the headers added to every request of a channel."""
    return _fields("a header", _header_fault)


def query() -> readers.Reader[Fields]:
    """Read the parameters added to every request of a channel."""
    return _fields("a parameter", _parameter_fault)


def _header_fault(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        return "the name of a header: letters, digits and -"
    if name.lower() in OWN_HEADERS:
        return "any header that the gateway does not write itself"
    return ""


def _parameter_fault(name: str) -> str:
    if not _PARAMETER.fullmatch(name):
        return "the name of a parameter: letters, digits and . _ ~ -"
    return "any parameter but alt, which sets how an answer is streamed" if name == "alt" else ""


def _fields(what: str, fault_of: NameCheck) -> readers.Reader[Fields]:
    """Read a mapping of names, compared without case, to values."""
    allowed = f"a mapping of at most {FIELDS_MAX} names to values, each {what}"
    read_value = readers.text(f"the value of {what}", secret=True)

    def read(node: nodes.Node, at: Location) -> Fields:
        if isinstance(node, nodes.Scalar) and node.is_nothing:
            return Fields()
        if not isinstance(node, nodes.Table) or len(node.entries) > FIELDS_MAX:
            raise readers.InvalidValue(found=nodes.described(node, hidden=True), allowed=allowed)
        pairs: dict[str, tuple[str, str]] = {}
        secrets: set[str] = set()
        for name, entry in node.entries.items():
            location = at.key(name, entry.mark)
            if fault := fault_of(name):
                location.blame(found=nodes.quoted(name), allowed=fault)
            elif name.lower() in pairs:
                location.blame(found=f"{nodes.quoted(name)} again", allowed="each name once")
            else:
                for value in attempt(_sent(read_value), entry.value, location):
                    pairs[name.lower()] = (name, value)
                    if isinstance(entry.value, nodes.Scalar):
                        secrets.update(entry.value.taken)
                    if value and _SECRET_NAME.fullmatch(name):
                        secrets.add(_SCHEME.sub("", value))
        return Fields(tuple(pairs.values()), frozenset(secrets))

    return read


def _sent(read_value: readers.Reader[str]) -> readers.Reader[str]:
    """Read a value that is sent unchanged in a request's head."""

    def read(node: nodes.Node, at: Location) -> str:
        value = read_value(node, at)
        if not value.isascii() or value != value.strip():
            raise readers.InvalidValue(
                found=nodes.described(node, hidden=True),
                allowed="ASCII, without spaces at its ends",
            )
        return value

    return read
