"""A class has few fields, unless it is a row, a body or a configuration defined elsewhere."""

import ast
from collections.abc import Iterator

from tests.tidy.files import SOURCES, files, tree

FIELDS_MAX = 12

ROW = "a row of the database, a field a column"
BODY = "the members of a provider's body or event"
VIEW = "a thing as operators are shown it, a field a member"
SETTINGS = "the keys of the configuration file"
OBJECTS = "the objects that one process is made of, each made once"
# More than it should be: each may lose fields and gain none.
WIDE = {
    "AgentRecord": (13, ROW),
    "CallRecord": (25, ROW),
    "Claimed": (13, ROW),
    "Copy": (15, ROW),
    "Job": (23, ROW),
    "KeyRecord": (18, ROW),
    "AgentView": (13, VIEW),
    "ChannelView": (15, VIEW),
    "KeyView": (19, VIEW),
    "ModelView": (13, VIEW),
    "TaskView": (15, VIEW),
    "LogRow": (23, ROW),
    "NewKey": (15, ROW),
    "Outcome": (16, ROW),
    "Principal": (15, ROW),
    "StoredPage": (14, ROW),
    "Event": (16, BODY),
    "LenientBody": (16, BODY),
    "MessagesBody": (14, BODY),
    "ResponsesBody": (16, BODY),
    "UsageParts": (14, BODY),
    "ChannelSpec": (24, SETTINGS),
    "Config": (34, SETTINGS),
    "Kind": (23, SETTINGS),
    "ModelSpec": (16, SETTINGS),
    "PriceSpec": (29, SETTINGS),
    "MediaServices": (14, OBJECTS),
    "Metrics": (64, OBJECTS),
    "Parent": (13, OBJECTS),
    "Services": (22, OBJECTS),
    "ChatCall": (13, "what is known of a request before its channel is chosen"),
    "Request": (20, "what all four protocols can ask for; and the stages of one request's reading"),
    "Database": (14, "a pool's limits, and its connections by state"),
    "SharedLimits": (13, "the link's state, and what is owed over it"),
}


def fields_of(node: ast.ClassDef) -> set[str]:
    """Return the names that the class declares, and those that its methods set on `self`."""
    names = {
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and "ClassVar" not in ast.unparse(item.annotation)
    }
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            names |= set(_set_on_self(method))
    return names


def _set_on_self(method: ast.AST) -> Iterator[str]:
    for node in ast.walk(method):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def test_classes_have_few_fields() -> None:
    wide: dict[str, int] = {}
    for path in files(*SOURCES, suffix=".py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and len(fields_of(node)) > FIELDS_MAX:
                wide[node.name] = max(len(fields_of(node)), wide.get(node.name, 0))
    assert not {name: count for name, count in wide.items() if count > WIDE.get(name, (0,))[0]}
