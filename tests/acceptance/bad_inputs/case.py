"""What a case is, and the pieces of which they are put together.

In the bytes of a case `{KEY}` stands for a good key, `{ALLOWED}` for one that may use only another
model, `{POOR}` for one whose account has no money.
"""

import json
from dataclasses import dataclass
from typing import Any

CHAT = "/v1/chat/completions"
MODEL = "sim-model"
ALIAS = "sim-alias"
OTHER_MODEL = "other-model"
PLACEHOLDER = "placeholder"
MAX_BODY_MB = 1

# The type that goes with each code of the first shape (reference 1.7).
TYPES = {
    "invalid_request": "invalid_request_error",
    "model_not_found": "invalid_request_error",
    "model_not_allowed": "invalid_request_error",
    "tool_not_supported": "invalid_request_error",
    "request_too_large": "invalid_request_error",
    "not_found": "invalid_request_error",
    "method_not_allowed": "invalid_request_error",
    "invalid_api_key": "authentication_error",
    "quota_exceeded": "insufficient_quota",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One expected answer: its status and code; `says` is a piece of its message."""

    status: int
    code: str | None  # None: the answer is good, or has no body
    says: str = ""


INVALID = Reply(400, "invalid_request")
UNKNOWN_MODEL = Reply(400, "model_not_found")
NO_KEY = Reply(401, "invalid_api_key", "No API key")
MALFORMED_KEY = Reply(401, "invalid_api_key", "malformed")
NOT_FOUND = Reply(404, "not_found")
WRONG_METHOD = Reply(405, "method_not_allowed")
TOO_LARGE = Reply(413, "request_too_large", f"{MAX_BODY_MB} MB")
GOOD = Reply(200, None)


@dataclass(frozen=True, slots=True)
class Case:
    """Bytes that are sent at once on a connection of their own, and what is answered, in order.

    `stays` says whether the connection can be used afterwards; if not it must be closed, with
    nothing more on it. `is_head` is for answers without a body; `is_recorded` for refusals that
    must have a row in the call log.
    """

    name: str
    wire: bytes
    responses: tuple[Reply, ...]
    stays: bool = True
    is_head: bool = False
    is_recorded: bool = False

    def __str__(self) -> str:
        return self.name


def invalid(says: str) -> Reply:
    """400 `invalid_request` with this in its message."""
    return Reply(400, "invalid_request", says)


def request(
    *lines: str,
    body: bytes = b"",
    method: str = "POST",
    target: str = CHAT,
    version: str = "HTTP/1.1",
    key: str | None = "Authorization: Bearer {KEY}",
    host: str | None = "Host: gateway",
    length: bool = True,
) -> bytes:
    """A request of these header lines; host, key and length are added unless told otherwise."""
    head = [f"{method} {target} {version}"]
    head += [line for line in (host, key) if line is not None]
    if length:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, *lines, "", ""]).encode("latin1") + body


def chat_json(**members: Any) -> bytes:
    """A chat body with `members` put in or replaced; a member that is `...` is left out."""
    whole = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], **members}
    given = {name: value for name, value in whole.items() if value is not ...}
    return json.dumps(given, separators=(",", ":")).encode()


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """The pieces as chunks of a body."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end
