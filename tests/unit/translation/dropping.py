"""The page for users of what each translation cannot say, made from the tables of fields.

`python -m tests.unit.translation.dropping` writes it anew.
"""

from __future__ import annotations

from pathlib import Path

from channels.translation.session import TRANSLATIONS, Translation
from tests.unit.translation.test_odd_values import BODIES
from tests.unit.translation.wire import translated

PAGE = Path(__file__).parents[3] / "ops" / "translations.md"
NAMES = {
    "chat": "chat-completions",
    "messages": "messages",
    "native": "native-content",
    "responses": "responses",
}
# Stand-ins of the tables for members that no protocol documents.
_UNDOCUMENTED = ("telepathy", "something")
_INTRODUCTION = """\
# What a translation cannot say

A channel of another protocol than the client's is spoken to over one of these paths, where
`translations` or `translate` in the configuration switches it on. The answer says so in
`X-Protocol-Translation`.
Every member of a request arrives, or is named in `X-Protocol-Warning`; a request with
`X-Protocol-Strict: 1` is refused with a 400 that names it, before anything is sent.

Below are the documented members that are left out, or changed because the other protocol has a
narrower place for them: a temperature above 1, a schema that is not enforced as strictly. Some are
only where they say something: `n` of 1 loses nothing. Members that a protocol does not document
are left out and named as well.

No message is ever left out, as the conversation would be another one without it. One that is empty,
or of which nothing can be said, stays as an empty message where the other protocol has such
(chat-completions, responses); the others refuse them, and so does the gateway: 400
`invalid_request`, naming the message. Empty instructions are none. Messages of one role that follow
one another are one turn. This page is made from the tables of the tests
(`python -m tests.unit.translation.dropping`).
"""


def dropped(translation: Translation) -> list[str]:
    """The documented fields that a path drops or changes, in the order of its table."""
    plain, fields = BODIES[translation.client]
    found: dict[str, None] = {}
    for _, fragment, *_ in fields:
        _, names = translated(translation.client, translation.upstream, {**plain, **fragment})
        found.update(dict.fromkeys(names))
    return [name for name in found if not any(mark in name for mark in _UNDOCUMENTED)]


def page() -> str:
    """The whole page."""
    sections = [_INTRODUCTION]
    for row in TRANSLATIONS.values():
        names = " · ".join(f"`{name}`" for name in dropped(row))
        sections.append(
            f"## {row.path}: {NAMES[row.client]} to {NAMES[row.upstream]}\n\n"
            f"`{row.header}`, switched on by `{row.setting}`.\n\n{names}\n"
        )
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
