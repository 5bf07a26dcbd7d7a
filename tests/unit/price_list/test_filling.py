"""Filling a file from a list: what stands there stays, comments and prices too; twice is once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.prices import PriceSpec
from channels.registry import ModelSpec
from gw.config.load import load_text
from gw.config.readers import ConfigFaults
from gw.price_list.filling import Filled, fill
from tests.support.rows import cases, each
from tests.unit.price_list.lists import FIREWORKS, GROQ, OPENAI, UNPRICED, list_of

SOURCE = Path("/etc/gw.yaml")
CHANNELS = """\
channels:  # who serves
  - {id: groq-1, kind: groq, api_key: key-of-groq}
  - id: openai-1
    base_url: https://api.openai.com
    api_key: "${KEY:-key-of-openai}"
    protocols: [chat]
"""
LIST = list_of(GROQ, FIREWORKS, OPENAI, UNPRICED)


def filled(text: str, *, is_replacing: bool = False, only: Sequence[str] = ()) -> Filled:
    found = fill(text, {}, LIST, source=SOURCE, is_replacing=is_replacing, only=frozenset(only))
    again = fill(found.text, {}, LIST, source=SOURCE, is_replacing=is_replacing)
    if not only:
        assert (again.text, again.added, again.priced) == (found.text, [], [])
    assert is_kept(text, found.text) or is_replacing
    return found


def is_kept(text: str, new: str) -> bool:
    """Every character of the text is in the new one, in its order, but for what says nothing."""
    rest = iter(new)
    written = re.sub(r"\[\]|\{\}|~|null|\s", "", text)
    return all(character in rest for character in written)


def models_of(text: str) -> dict[str, ModelSpec]:
    return dict(load_text(text, {}, source=SOURCE).registry.models)


NO_MODELS = [
    CHANNELS,
    CHANNELS.rstrip(),
    CHANNELS + "models:\n",
    CHANNELS + "models:  # none yet\n# later\n",
    CHANNELS + "models: []  # none yet\ndrain_seconds: 3\n",
    CHANNELS + "models: ~\n",
    "models: []\n" + CHANNELS,
    CHANNELS.replace("\n", "\r\n") + "models: []\r\n",
]


@each("text", NO_MODELS)
def test_models_are_added_where_there_were_none(text: str) -> None:
    found = filled(text)
    assert (found.added, found.unpriced) == (["oss", "gpt"], ["gpt-new"])
    models = models_of(found.text)
    assert models["gpt"].price == PriceSpec(input=Decimal("1.25"), output=Decimal(10))
    assert models["gpt"].aliases == ("gpt-old",)
    assert models["oss"].bindings[0].upstream_model == "openai/oss"
    assert "https://provider.example/prices, 2026-10-03" in found.text
    assert ("\r\n" in text) == ("\r\n" in found.text)
    assert "\n" not in found.text.replace("\r\n", "") or "\r\n" not in text


MINE = """\
  # the first
  - id: mine  # mine alone
    channels: [groq-1]
    price: {input: 7, output: 8}
    # its promotion ends in May
  # after it
"""


@cases("tail", "", "drain_seconds: 3\n", "\n\n# the end\n")
@cases("indent", "", "  ")
def test_models_are_added_behind_those_that_are_there(tail: str, indent: str) -> None:
    mine = "".join(f"{line.removeprefix('  ')}\n" for line in MINE.splitlines())
    text = f"{CHANNELS}models:\n{mine if not indent else MINE}{tail}"
    found = filled(text)
    models = models_of(found.text)
    assert list(models) == ["mine", "oss", "gpt"]
    assert models["mine"].price == PriceSpec(input=Decimal(7), output=Decimal(8))
    lines = [line.strip() for line in found.text.splitlines()]
    assert lines.index("# its promotion ends in May") < lines.index("- id: oss")


OWN = "{input: 3, output: 4}"


def own(price: str) -> str:
    return f"{CHANNELS}models:\n  - id: gpt\n    channels: [openai-1]\n    price: {price}\n"


def test_own_price_stays_unless_it_is_to_be_replaced() -> None:
    found = filled(own(OWN))
    assert (found.added, found.priced, found.replaced) == (["oss"], [], [])
    assert models_of(found.text)["gpt"].price.input == Decimal(3)
    replaced = filled(own(OWN), is_replacing=True)
    assert replaced.replaced == ["gpt"]
    assert models_of(replaced.text)["gpt"].price.input == Decimal("1.25")
    block = own("\n      input: 3  # ours\n      output: 4")
    assert models_of(filled(block, is_replacing=True).text)["gpt"].price.output == Decimal(10)


@cases(
    "model",
    "- id: gpt\n    channels: [openai-1]",
    "- id: gpt\n    price:\n    channels: [openai-1]",
    "- id: gpt\n    price: {}  # to come\n    channels: [openai-1]",
    "- id: gpt\n    price: null\n    channels:\n      - openai-1  # alone",
    "- {id: gpt, channels: [openai-1]}",
    "- {id: gpt, channels: [openai-1], }",
    "- id: other\n    channels: [{id: openai-1, as: gpt}]",
    '- id: gpt\n    channels: [openai-1]\n    aliases:\n      - "x"  # the last',
)
def test_price_that_is_missing_is_filled_in(model: str) -> None:
    found = filled(f"{CHANNELS}models:\n  {model}\n# end\n", only=["gpt", "other"])
    assert found.priced == [next(iter(models_of(found.text)))]
    (filled_model, *_) = models_of(found.text).values()
    assert filled_model.price == PriceSpec(input=Decimal("1.25"), output=Decimal(10))


def test_price_that_nobody_knows_stays_a_fault() -> None:
    text = f"{CHANNELS}models:\n  - id: gpt-new\n    channels: [openai-1]\n"
    found = filled(text)
    assert found.without_price == ["gpt-new"]
    with pytest.raises(ConfigFaults) as caught:
        load_text(found.text, {}, source=SOURCE)
    assert [fault.path for fault in caught.value.faults] == [
        "models[0].price.input",
        "models[0].price.output",
    ]


def test_alias_of_a_model_that_is_there_is_not_taken_again() -> None:
    text = f"{CHANNELS}models:\n  - id: mine\n    aliases: [gpt-old]\n    callable: false\n"
    assert filled(text).added == ["oss"]


def test_only_the_models_that_are_named_are_added() -> None:
    assert filled(CHANNELS, only=["gpt"]).added == ["gpt"]
    assert filled(CHANNELS, only=["nobody"]).added == []


@cases(
    "text, line",
    (CHANNELS + "models: [{id: m, callable: false}]\n", 7),
    (CHANNELS + "models: &all\n  - {id: m, callable: false}\n", 7),
    ("{channels: [{id: groq-1, kind: groq, api_key: key-of-groq}]}", 1),
    (CHANNELS + "drain_seconds: 3\n...\n", 1),
)
def test_form_that_cannot_be_added_to_is_a_fault_of_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigFaults) as caught:
        filled(text)
    assert [fault.line for fault in caught.value.faults] == [line]


def test_other_faults_of_the_file_are_told_first() -> None:
    with pytest.raises(ConfigFaults) as caught:
        filled(CHANNELS.replace("kind: groq", "kind: grok"))
    assert "channels[0].kind" in [fault.path for fault in caught.value.faults]


COMMENTS = st.sampled_from(["", "# a", "    # b", "  # c", "\n"])


@given(st.lists(st.tuples(COMMENTS, st.booleans(), COMMENTS), max_size=4), st.booleans())
def test_every_line_stays_wherever_comments_stand(
    parts: list[tuple[str, bool, str]], is_ended: bool
) -> None:
    text = f"{CHANNELS}models:\n"
    for number, (before, has_price, after) in enumerate(parts):
        text += f"{before}\n  - id: m{number}\n    channels: [groq-1]\n"
        price = "price: {input: 1, output: 2}  # ours"
        text += f"    {price if has_price else 'callable: false'}\n"
        text += f"{after}\n"
    if not is_ended:
        text = text.rstrip("\n")
    found = filled(text)
    assert list(models_of(found.text)) == [*(f"m{n}" for n in range(len(parts))), "oss", "gpt"]
