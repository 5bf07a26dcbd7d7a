from __future__ import annotations

import json

import pytest

from gw.config.readers import ConfigFaults, Fault, FaultReport, Mark, fault_records, render
from tests.unit.config.reading import faults_of

FAULTS = [
    Fault("gw.yaml", "listen", "8080", "host:port", "write 127.0.0.1:8080", 1, 9),
    Fault("gw.yaml", "channels[0].protocols[1]", '"chatt"', "one of chat, messages", "", 12, 5),
    Fault("gw.yaml", "", "no such file or directory", "a configuration file"),
]


def test_table_tells_place_found_allowed_and_hint() -> None:
    assert render(FAULTS) == (
        "gw.yaml:1:9  listen\n"
        "    found    8080\n"
        "    allowed  host:port\n"
        "    hint     write 127.0.0.1:8080\n"
        "gw.yaml:12:5  channels[0].protocols[1]\n"
        '    found    "chatt"\n'
        "    allowed  one of chat, messages\n"
        "gw.yaml\n"
        "    found    no such file or directory\n"
        "    allowed  a configuration file\n"
        "3 faults"
    )
    assert render(FAULTS[:1]).endswith("1 fault")


def test_fault_as_text_is_one_line() -> None:
    assert [str(fault) for fault in FAULTS] == [
        "gw.yaml:1:9 listen: found 8080, allowed host:port (write 127.0.0.1:8080)",
        'gw.yaml:12:5 channels[0].protocols[1]: found "chatt", allowed one of chat, messages',
        "gw.yaml: found no such file or directory, allowed a configuration file",
    ]


def test_records_are_plain_json() -> None:
    records = json.loads(json.dumps(fault_records(FAULTS)))
    assert records[1] == {
        "file": "gw.yaml",
        "path": "channels[0].protocols[1]",
        "found": '"chatt"',
        "allowed": "one of chat, messages",
        "hint": "",
        "line": 12,
        "column": 5,
    }
    assert records[2]["line"] is None


def test_the_exception_reads_as_the_table() -> None:
    assert str(ConfigFaults(FAULTS)) == render(FAULTS)


def test_report_raises_in_the_order_of_the_file() -> None:
    report = FaultReport("f")
    report.raise_if_any()
    top = report.top()
    top.key("late", Mark(9, 1)).blame(found="x", allowed="y")
    top.key("early", Mark(2, 3)).item(4).key("a b").blame(found="x", allowed="y")
    with pytest.raises(ConfigFaults) as caught:
        report.raise_if_any()
    assert [(fault.path, fault.line) for fault in caught.value.faults] == [
        ('early[4]["a b"]', 2),
        ("late", 9),
    ]


@pytest.mark.parametrize(
    "text",
    [
        'secret: 1\n"\\e[31m": 2\n',
        'listen: "\\e]0;title\\a"\n',
        'translations: ["\\r\\nfaked: line", "\\u2028", "\\x9b31m", "\\u202e"]\n',
        'listen: !<\\e> "x"\n',
        '"\\n": {"\\0": 1}\n',
    ],
)
def test_table_holds_no_control_characters(text: str) -> None:
    table = render(faults_of(text))
    assert all(character.isprintable() or character == "\n" for character in table)


@pytest.mark.parametrize(
    "text",
    [
        "listen: https://user:hidden@host/path\n",
        "listen: https://host/path?key=hidden&x=hidden\n",
        "listen: sk-platform-hiddenhiddenhidden\n",
        "listen: Bearer hidden-hidden\n",
        "listen: AIzahiddenhidden\n",
        "listen: ${APP_SECRET:-hidden}\n",
    ],
)
def test_table_masks_credentials_in_the_wrong_place(text: str) -> None:
    assert "hidden" not in render(faults_of(text))


def test_long_value_is_cut() -> None:
    (fault,) = faults_of(f"listen: {'x' * 1000}")
    assert len(fault.found) < 100
    assert fault.found.endswith('…"')
