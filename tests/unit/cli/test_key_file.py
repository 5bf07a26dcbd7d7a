"""The file of `gw key create --from`: its rows, and what is wrong with one."""

import contextlib
import io
import json
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.cli.arguments import instant
from gw.cli.failures import LineFaults
from gw.cli.key import check_key
from gw.cli.key_file import FAULTS_MAX, MEMBERS, ROWS_MAX, Row, read_rows
from gw.cli.main import main, make_parser
from gw.nouns.refused import Invalid
from tests.support.rows import cases


def rows_of(folder: Path, text: str | bytes, *beside: str) -> list[Row]:
    """The rows of a file with this text, with the options of the command beside it."""
    path = folder / "keys"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    words = ["key", "create", "--from", str(path), *beside]
    defaults = make_parser(words).parse_args(words)
    return read_rows(str(path), defaults, check=check_key)


def faults_of(folder: Path, text: str) -> list[tuple[int, str]]:
    with pytest.raises(LineFaults) as caught:
        rows_of(folder, text)
    return [(fault.line, fault.text) for fault in caught.value.faults]


def settings(row: Row) -> dict[str, Any]:
    return {name: getattr(row.options, name) for name in MEMBERS}


EVERYTHING = {
    "account": "a",
    "name": "Ann's, key",
    "kind": "employee",
    "user": "ann",
    "agent": None,
    "expires": "2030-01-01T00:00:00Z",
    "spend_cap_usd": "1.5",
    "data": "region=eu; retention=0",
    "allow": ["m", "n"],
    "allow_none": False,
    "account_logs": True,
}


def test_both_forms_mean_what_the_options_mean(tmp_path: Path) -> None:
    header = ",".join(name for name in EVERYTHING if name != "agent")
    csv = (
        f'\ufeff{header}\r\na,"Ann\'s, key",employee,ann,2030-01-01T00:00:00Z,1.5,'
        "region=eu; retention=0,m;n,no,yes\r\n"
    )
    (of_csv,) = rows_of(tmp_path, csv)
    (of_json,) = rows_of(tmp_path, "\n" + json.dumps(EVERYTHING) + "\n\n")
    assert (of_csv.line, of_json.line) == (2, 2)
    assert settings(of_csv) == settings(of_json)
    options = of_csv.options
    words = [name for name in MEMBERS if name not in ("expires", "spend_cap_usd")]
    assert {name: getattr(options, name) for name in words} == {
        name: EVERYTHING[name] for name in words
    }
    assert (options.expires, options.spend_cap_usd) == (
        instant("2030-01-01T00:00:00Z"),
        1_500_000_000,
    )


def test_options_beside_the_file_hold_for_rows_that_name_none(tmp_path: Path) -> None:
    text = (
        '{"name": "a"}\n{"name": "b", "account": "z", "allow": ["n"]}\n{"name": "c", "allow": []}'
    )
    beside = ("--account", "acct_1", "--allow", "m", "--spend-cap-usd", "2")
    rows = rows_of(tmp_path, text, *beside)
    found = [(one.options.account, one.options.allow, one.options.allow_none) for one in rows]
    assert found == [("acct_1", ["m"], False), ("z", ["n"], False), ("acct_1", None, True)]
    assert {one.options.spend_cap_usd for one in rows} == {2_000_000_000}


@cases(
    "line, fault",
    ("{", "it is not JSON"),
    ("[]", "it is not a JSON object"),
    ("{" * 100_000, "it is not JSON"),
    ('{"account": "a"}', "name: it is needed"),
    ('{"name": "n"}', "account: it is needed"),
    ('{"account": "a", "name": "n", "nmae": "x"}', "'nmae' is no member of a key"),
    ('{"account": "a", "name": "n", "name": "m"}', "a member is given twice"),
    ('{"account": "a", "name": {}}', "name: it is text"),
    ('{"account": "a", "name": "n", "account_logs": "yes"}', "account_logs: it is true or false"),
    ('{"account": "a", "name": "n", "allow": "m"}', "allow: it is a list of models"),
    ('{"account": "a", "name": "n", "allow": ["m"], "allow_none": true}', "not allowed with"),
    ('{"account": "a", "name": "n", "spend_cap_usd": -1}', "-1 is negative"),
    ('{"account": "a", "name": "n", "expires": "soon"}', "not an RFC 3339 time"),
    ('{"account": "a", "name": "--json"}{}', "it is not JSON"),
    ('{"account": "a", "name": "n", "kind": "agent"}', "an agent goes with the kind agent"),
    ('{"account": "a", "name": "n", "config": "x"}', "'config' is no member of a key"),
)
def test_line_that_is_wrong_is_named(tmp_path: Path, line: str, fault: str) -> None:
    good = '{"account": "a", "name": "n"}'
    ((number, text),) = faults_of(tmp_path, f"{good}\n{line}\n{good}\n")
    assert number == 2
    assert fault in text


def test_all_faults_of_a_file_are_listed_up_to_a_bound(tmp_path: Path) -> None:
    rows = ["account,name", "a,n", "a", "a,", *["a,b,c"] * FAULTS_MAX]
    found = faults_of(tmp_path, "\n".join(rows))
    assert [line for line, _ in found] == list(range(3, FAULTS_MAX + 3))
    assert found[0][1] == "it has 1 fields, and the header has 2"
    assert found[1][1] == "name: it is needed"


@cases(
    "text, fault",
    (b"", "names no key"),
    (b"account,name\n", "names no key"),
    (b"account,nmae\na,b\n", "'nmae' is none"),
    (b"account,account\na,b\n", "given twice"),
    (b"account,name\na,\xff\n", "is not UTF-8, at byte 15"),
    (b"account,name\n" + b"a,n\n" * (ROWS_MAX + 1), "more than 10000 keys"),
)
def test_file_that_is_wrong_as_a_whole_is_refused(tmp_path: Path, text: bytes, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        rows_of(tmp_path, text)


def test_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (str(tmp_path), str(tmp_path / "none"), "\0"):
        with pytest.raises(Invalid, match=r"cannot be read|is not a file"):
            read_rows(path, Namespace(), check=check_key)


def test_dash_is_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.BytesIO(b"account,name\na,n\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=text))
    defaults = make_parser(["key", "create"]).parse_args(["key", "create"])
    ((line, options),) = (
        (row.line, row.options) for row in read_rows("-", defaults, check=check_key)
    )
    assert (line, options.account, options.name) == (2, "a", "n")


def test_command_lists_the_faults_before_anything_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("account,name\na,\n")
    assert main(["key", "create", "--from", str(path), "--config", "/nowhere", "--json"]) == 2
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert error["code"] == "invalid_file"
    assert error["faults"] == [{"line": 2, "text": "name: it is needed"}]
    assert captured.err == f"{path}:2  name: it is needed\n"


@given(text=st.text(max_size=60), is_json=st.booleans())
def test_no_text_is_more_than_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, is_json: bool
) -> None:
    head = '{"account": "a", "name": ' if is_json else "account,name\n"
    with contextlib.suppress(Invalid):
        rows_of(tmp_path_factory.getbasetemp(), (head + text).encode("utf-8", "replace"))
