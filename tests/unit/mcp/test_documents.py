"""What clients write into their configurations parses, and names `/mcp`."""

import json
import re
from pathlib import Path

from tests.support.rows import each

ROOT = Path(__file__).resolve().parents[3]
PAGE, HEADING = "ops/reference/knowledge.md", "## 8.5 Over MCP"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks() -> list[tuple[str, str]]:
    """Language and text of each block in the section about desktop clients."""
    _, _, rest = (ROOT / PAGE).read_text(encoding="utf-8").partition(HEADING)
    return BLOCK.findall(rest.partition("\n## ")[0])


@each("language, text", blocks())
def test_a_configuration_can_be_read(language: str, text: str) -> None:
    servers = json.loads(text)
    (server,) = (servers.get("mcpServers") or servers["servers"]).values()
    assert (server.get("url") or server["args"][2]).endswith("/mcp")


def test_every_client_that_is_named_has_its_lines() -> None:
    languages = [language for language, _ in blocks()]
    assert languages == ["json", "json"]
