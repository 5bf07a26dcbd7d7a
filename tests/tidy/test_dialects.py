"""What a dialect touches: its folder, its family's row, its route; and no other file names one.

`tests/acceptance/test_added_dialect.py` adds one and has it served; this counts what the product's
own dialects touch, so that no table of all of them comes back.
"""

from pathlib import PurePath

from tests.tidy.dialect_mentions import PACKAGE, ROWS, mentions
from tests.tidy.files import SOURCES, files, name_of

# What every chat dialect is made of; other files beside these are ideas of one dialect.
PARTS = (
    *("members", "request", "decode", "encode", "events", "usage", "meter"),
    *("response_decoder", "response_encoder", "dialect"),
)
# Where a dialect is named, and why.
NAMED = {
    "channels/families.py": "the rows",
    "gw/app.py": "the route table",
    "channels/translation/paths.py": "the table of translations, for one that has any",
}
# Endpoints that their dialect's record alone does not serve: headers, paths, forms of a stream.
ENDPOINTS = {
    "gw/api/chat/agent_call.py": {"chat"},
    "gw/api/chat/compact.py": {"responses"},
    "gw/api/chat/completions.py": {"chat"},
    "gw/api/chat/conversation.py": {"responses"},
    "gw/api/chat/counting.py": {"messages"},
    "gw/api/chat/gemini.py": {"gemini"},
    "gw/api/chat/messages.py": {"messages"},
    "gw/api/models/entries.py": {"gemini"},
    "gw/api/models/handlers.py": {"gemini"},
    "gw/api/chat/socket.py": {"responses"},
    "gw/api/reference/chat.py": {"chat", "gemini", "messages", "responses"},  # its own words
    "gw/config/cautions.py": {"messages"},  # whose upstreams alone keep a cache for an hour
    "gw/setup/clients.py": {"chat", "gemini", "messages", "responses"},  # what clients speak
}
# What one dialect alone can carry over for another, for which there is no canonical field.
PAIRS = {
    "channels/dialects/chat/encode.py": {"messages"},  # service tiers
    "channels/dialects/chat/thinking.py": {"messages", "gemini", "responses"},  # whose signature
    "channels/dialects/gemini/signatures.py": {"messages"},  # opaque thoughts, which it alone has
    "channels/dialects/responses/decode.py": {"chat"},  # media, which one provider has alike
    "channels/dialects/responses/members.py": {"chat"},  # names, which one provider has alike
    "channels/dialects/responses/encode.py": {"chat"},  # members, which one provider has alike
}
# The same letters as the word of something else.
WORDS = {
    "channels/conversation.py": "a member of the body",
    "channels/dialects/token_estimate.py": "a member of the body",
    "channels/dialects/chat/decode.py": "a member of the body",
    "channels/dialects/chat/encode.py": "a member of the body",
    "channels/dialects/chat/hostings.py": "a member of the body",
    "channels/dialects/chat/instructed.py": "a member of the body",
    "channels/dialects/chat/members.py": "a member of the body",
    "channels/dialects/chat/request.py": "a member of the body",
    "channels/kinds.py": "what kinds of upstreams speak",
    "channels/translation/model.py": "a member of the body",
    "gw/app.py": "endpoints' labels",
    "gw/api/matrix.py": "how a cell is served",
    "gw/cli/matrix.py": "how a cell is served",
    "gw/api/chat/conversation.py": "a member of the body",
    "gw/api/logs/detail.py": "how a channel was spoken to",
    "gw/api/logs/filters.py": "rows billed by tokens",
    "gw/config/config.py": "a key of `timeouts`, a value of `precharge`",
    "gw/demo/summary.py": "first calls to be pasted",
    "gw/console/playground.py": "a prompt in each protocol",
    "gw/api/admin/openapi.py": "a member of a document in OpenAPI",
    "gw/api/reference/chat.py": "labels of examples",
    "gw/api/reference/document.py": "a member of a document in OpenAPI",
    "gw/setup/clients.py": "words of clients' files",
    "gw/moving_in/litellm/configuration.py": "what LiteLLM calls a model's mode",
    "gw/moving_in/litellm/names.py": "what LiteLLM calls a model's mode",
    "gw/moving_in/plan.py": "what a channel of no kind speaks",
    "gw/moving_in/writing.py": "what a channel of no kind speaks",
    "metrics/genai.py": "an operation's name in traces",
}


def test_no_file_names_a_dialect_but_those_that_may() -> None:
    words: set[str] = set()
    named: dict[str, set[str]] = {}
    for path in files(*SOURCES, suffix=".py"):
        name = name_of(path)
        for dialect, how in mentions(path):
            if dialect == _folder_of(name):
                continue
            if how == "literal":
                words.add(name)
            else:
                named.setdefault(name, set()).add(dialect)
    assert named.pop("channels/translation/paths.py") == set(ROWS)
    assert named.pop("gw/app.py") <= set(ROWS)
    assert named == {**ENDPOINTS, **PAIRS}
    assert words == {*WORDS, "channels/families.py"}


def test_folders_of_chat_dialects_have_the_same_files() -> None:
    sources = {name_of(path) for path in files(*SOURCES, suffix=".py")}
    folder = PACKAGE.replace(".", "/")
    assert {f"{folder}/{name}/{part}.py" for name in ROWS for part in PARTS} <= sources


def test_files_that_may_are_there() -> None:
    """Also the rows: the literals of their protocols stand there and in no other table."""
    sources = {name_of(path) for path in files(*SOURCES, suffix=".py")}
    assert {*NAMED, *ENDPOINTS, *PAIRS, *WORDS} <= sources


def _folder_of(name: str) -> str:
    """The dialect whose folder a file is in; empty for any other file."""
    path = PurePath(name)
    return path.parent.name if path.parent.parent == PurePath(PACKAGE.replace(".", "/")) else ""
