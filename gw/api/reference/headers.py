"""The headers of requests and responses that the gateway itself reads and sets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from actors.wallet.attribution import END_USER_CHARACTERS_MAX, LABELS_MAX, RUN_CHARACTERS_MAX
from channels.conversation import NAME_CHARACTERS_MAX
from gw.api.attribution import CONVERSATION_HEADERS
from gw.api.chat.counting import HEADER as TOKEN_COUNT
from gw.api.reference.operation import Parameter, Schema, in_header
from gw.budgets import ceiling
from gw.calls import attribution, data_demand
from gw.calls.chain import HEADER as CHAIN
from gw.idempotency import guard
from gw.idempotency.claim import HEADER as IDEMPOTENCY_KEY
from gw.idempotency.claim import KEY_CHARACTERS_MAX

REPLAYED = guard.REPLAYED

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_TRUE: Schema = {"type": "string", "const": "true"}
_FALSE: Schema = {"type": "string", "const": "false"}

# Headers of responses, with their meaning and form.
HEADERS: Mapping[str, tuple[str, Schema]] = MappingProxyType(
    {
        "x-gateway-trace": (
            "The id of the request, in every response; `request_id` of its row in the call logs.",
            {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        ),
        "Retry-After": ("Seconds until the request may be repeated.", _COUNT),
        "x-should-retry": ("`false`: repeating the request cannot help.", _FALSE),
        "WWW-Authenticate": ("The scheme of the key.", _TEXT),
        "Allow": ("The methods of the endpoint.", _TEXT),
        "x-ratelimit-limit-requests": ("The account's requests per minute, if limited.", _COUNT),
        "x-ratelimit-remaining-requests": ("How many of them are left.", _COUNT),
        "x-ratelimit-reset-requests": ("Seconds until all of them are free again.", _COUNT),
        "x-ratelimit-limit-concurrency": ("The account's requests at a time, if limited.", _COUNT),
        "x-ratelimit-remaining-concurrency": ("How many more may be in flight.", _COUNT),
        "x-ratelimit-limit": ("The key's requests to its call logs per minute.", _COUNT),
        "x-ratelimit-remaining": ("How many of them are left.", _COUNT),
        "x-ratelimit-reset": ("Seconds until all of them are free again.", _COUNT),
        "X-Protocol-Translation": (
            "From which protocol to which the request was translated; absent without translation.",
            _TEXT,
        ),
        "X-Protocol-Warning": (
            "What the translation dropped, separated by `; `; of a chain, `skipped MODEL: …` before"
            " it for each model that would have lost these members; absent if nothing.",
            _TEXT,
        ),
        CHAIN: (
            "Of a chain: the model that responded, by which the call is charged; percent-encoded"
            " where its id is not ASCII.",
            _TEXT,
        ),
        TOKEN_COUNT: (
            "Who counted: the upstream, or the gateway by an estimate.",
            {"type": "string", "enum": ["upstream", "estimate"]},
        ),
        REPLAYED: ("`true`: the response to an earlier request under the key.", _TRUE),
        "x-gateway-budget": (
            "The budget that refused the call, what it needed, what was left, and until when.",
            _TEXT,
        ),
        "x-gateway-budget-warning": (
            "Budgets that have passed their limits and only warn, separated by commas; as of two"
            " seconds ago at most.",
            _TEXT,
        ),
        "ETag": ("The version of the body.", _TEXT),
        "Cache-Control": ("How long the body may be kept.", _TEXT),
        "Location": ("Where the file is.", _TEXT),
        "Accept-Ranges": ("`bytes`: a part may be requested with `Range`.", _TEXT),
        "Content-Range": ("The part that follows, and the length of the whole.", _TEXT),
        "Content-Disposition": ("The file's name.", _TEXT),
        "Content-Length": ("The number of bytes that follow.", _COUNT),
    }
)
ACCOUNT_LIMITS = tuple(name for name in HEADERS if name.endswith(("-requests", "-concurrency")))
KEY_RATE = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
TRANSLATED = ("X-Protocol-Translation", "X-Protocol-Warning", CHAIN)

IDEMPOTENCY = in_header(
    IDEMPOTENCY_KEY,
    "One key for each submit intent: the same request under the same key is carried out and"
    " charged once within seven days, and gets the first response again. Without it every request"
    " is new.",
    {
        "type": "string",
        "minLength": 1,
        "maxLength": KEY_CHARACTERS_MAX,
        "pattern": r"^[\x21-\x7e]+$",
    },
)
STRICT = in_header(
    "X-Protocol-Strict",
    "`1`: the request is refused where a translation would drop anything of it.",
    {"type": "string", "enum": ["1"]},
)
# By which a client names a conversation, so that it keeps one channel.
SESSION: tuple[Parameter, ...] = tuple(
    in_header(
        name,
        "Names the conversation, which keeps one channel while that is healthy; the first of these"
        f" headers counts, and {NAME_CHARACTERS_MAX} characters of it.",
    )
    for name in CONVERSATION_HEADERS
)
# For whom a call is.
ATTRIBUTION: tuple[Parameter, ...] = (
    in_header(
        attribution.END_USER,
        f"The end user of the call, in at most {END_USER_CHARACTERS_MAX} printable"
        " characters; without it the one that the body names.",
    ),
    in_header(
        attribution.RUN,
        "The run that the call belongs to.",
        {
            "type": "string",
            "pattern": rf"^[A-Za-z0-9._:/@-]{{1,{RUN_CHARACTERS_MAX}}}$",
        },
    ),
    in_header(
        attribution.LABELS,
        f"At most {LABELS_MAX} labels, as `team=search, feature=chat`.",
    ),
    in_header(
        ceiling.HEADER,
        "The most in USD that the calls of the run may cost, whoever makes them; the least that"
        " anyone names holds.",
        {"type": "string", "pattern": r"^[0-9]{1,10}(\.[0-9]{1,9})?$"},
    ),
)
# What a call demands for its data.
DATA = in_header(
    data_demand.HEADER,
    "What the call's channel must have promised for its data, such as `region=eu; retention=0`:"
    " beside what key and account demand, which it may only narrow.",
)
RANGE = in_header("Range", "A part of the file, such as `bytes=0-1023`.")
