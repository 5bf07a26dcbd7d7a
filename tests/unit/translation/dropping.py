"""The page for users of what each translation cannot say, made from the tables of fields.

`python -m tests.unit.translation.dropping` writes it anew.
"""

from pathlib import Path

from channels.translation.paths import TRANSLATIONS, Translation
from tests.unit.translation.test_odd_values import BODIES
from tests.unit.translation.translated import translated

PAGE = Path(__file__).parents[3] / "ops" / "reference" / "losses.md"
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

Every member of a request arrives, names the conversation to the gateway, or is named in
`X-Protocol-Warning`; with `X-Protocol-Strict: 1` the request is refused with a 400 that names it,
before anything is sent. Listed are the documented members that are left out, or changed because the
other protocol has a narrower place for them: a temperature above 1, a schema that is not enforced
as strictly. Some only count where they say something: `n` of 1 loses nothing. Members that a
protocol does not document are left out and named as well.

No message is left out, as the conversation would be another one without it. One that is empty, or
of which nothing can be said, stays as an empty message where the other protocol has such
(chat-completions, responses); else it is 400 `invalid_request`, naming the message. Empty
instructions are none. Messages of one role that follow one another are one turn.

In brackets stand a way's name in `translations`, and what `X-Protocol-Translation` says of it.
Written by `python -m tests.unit.translation.dropping`.
"""


def dropped(translation: Translation) -> list[str]:
    """The documented fields that a path drops or changes, in the order of its table."""
    plain, fields = BODIES[translation.client]
    found: dict[str, None] = {}
    for _, fragment, *_ in fields:
        _, names = translated(translation.client, translation.upstream, {**plain, **fragment})
        found.update(dict.fromkeys(names))
    return [name for name in found if not any(mark in name for mark in _UNDOCUMENTED)]


def _names(fields: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in fields)


def page() -> str:
    """The whole page: by the client's protocol, what is lost to all others and to each."""
    sections = [_INTRODUCTION]
    for client in dict.fromkeys(row.client for row in TRANSLATIONS.values()):
        lost = {row: dropped(row) for row in TRANSLATIONS.values() if row.client == client}
        first, *others = lost.values()
        common = [name for name in first if all(name in names for names in others)]
        sections.append(f"## From {NAMES[client]}\n\nTo each: {_names(common)}\n")
        for row, names in lost.items():
            only = _names([name for name in names if name not in common])
            heading = f"**To {NAMES[row.upstream]}** (`{row.setting}`, `{row.header}`)"
            sections.append(f"{heading} also: {only}\n")
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
