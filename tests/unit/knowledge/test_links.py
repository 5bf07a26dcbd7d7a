"""Wiki links in the text of a page."""

from gw.knowledge.markdown import links
from tests.support.rows import cases


@cases(
    "body, targets",
    ("| [[b\\|the b]] | [[b#part\\|p]] |", ["b"]),
    ("| [[a\\|the a]] | [[b\\#c\\|p]] |", ["a", "b\\"]),
    ("[[a|the a]] and [[b#part]] and [[c#part|p]] and [[d]]", ["a", "b", "c", "d"]),
    ("[[ a \\| the a ]] and [[\\|x]] and [[a|b\\|c]]", ["a"]),
    ("`[[a\\|b]]`", []),
)
def test_target_of_a_link_ends_at_a_pipe_escaped_or_not(body: str, targets: list[str]) -> None:
    assert links(body) == targets
