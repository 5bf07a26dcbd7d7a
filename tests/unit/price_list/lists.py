"""Short price lists for tests."""

from pathlib import Path
from textwrap import dedent

import pytest

from gw.config.faults import ConfigFaults
from gw.price_list.reading import PriceList, read_list

SOURCE = Path("/etc/gateway/prices.yaml")
HEAD = """\
dated: 2026-11-22
sources:
  page: {url: "https://provider.example/prices", dated: 2026-10-03}
  copy: {url: "https://copy.example", dated: null}
models:
"""


def list_of(*rows: str) -> PriceList:
    """A list of these rows, each in braces; one without a source is from the page."""
    lines = [row if "source:" in row else f"{row[:-1]}, source: page}}" for row in rows]
    return read_list(HEAD + "".join(f"  - {line}\n" for line in lines), source=SOURCE)


def faults_of(text: str) -> list[tuple[int | None, str]]:
    """Line and path of every fault of a list."""
    with pytest.raises(ConfigFaults) as caught:
        read_list(dedent(text), source=SOURCE)
    return [(fault.line, fault.path) for fault in caught.value.faults]


GROQ = "{provider: groq, id: oss, as: openai/oss, price: {input: 0.15, output: 0.6}}"
FIREWORKS = (
    "{provider: fireworks, id: oss, as: f/oss, context_size: 100,"
    ' price: {input: 0.2, output: 0.5, cached_input: 0.02}, source: copy, note: "beware"}'
)
OPENAI = "{provider: openai, id: gpt, aliases: [gpt-old], price: {input: 1.25, output: 10}}"
UNPRICED = "{provider: openai, id: gpt-new}"
