"""Command lines: options, what is wrong with them, and how results are written."""

import io
import json
import os
import subprocess
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _SubParsersAction
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.store.embedded.errors import EmbeddedFault
from actors.store.errors import (
    ConstraintViolated,
    StatementRefused,
    StatementTimedOut,
    StoreUnavailable,
)
from actors.store.schema import MigrationFault
from actors.wallet.ledger import UnknownAccount
from gw.cli.arguments import (
    count,
    identifier,
    instant,
    label,
    or_none,
    sha256_hex,
    usd,
    usd_or_more,
)
from gw.cli.failures import CommandRefused, UsageFault, failure_of
from gw.cli.key_options import check_create, check_set
from gw.cli.main import NOUNS, main, make_parser
from gw.cli.output import Result, print_result, rfc3339, shown, to_json
from gw.keys.issue import NotRevealable
from gw.keys.sealing import WrongSecret
from gw.keys.secret_file import SecretFault
from gw.keys.store import HashIsTaken, KeyIsRevoked, UnknownKey
from metrics.version import commit
from tests.support.rows import cases

Reader = Callable[[str], Any]


@cases(
    "read, text, value",
    (label, " Ann's key ", "Ann's key"),
    (label, "Größe 7 – 密钥", "Größe 7 – 密钥"),
    (label, "x" * 200, "x" * 200),
    (identifier, "acct_0123", "acct_0123"),
    (usd, "1", 1_000_000_000),
    (usd, "-0.000000001", -1),
    (usd, "4000000000", 4 * 10**18),
    (usd_or_more, "0", 0),
    (usd_or_more, "12.5", 12_500_000_000),
    (count, "1", 1),
    (count, "2147483647", 2**31 - 1),
    (count, "007", 7),
    (or_none(count), "none", None),
    (or_none(count), "5", 5),
    (sha256_hex, "aB" * 32, b"\xab" * 32),
    (instant, "2027-01-31T12:00:00Z", datetime(2027, 1, 31, 12, tzinfo=UTC)),
    (instant, "1999-01-31t12:00:00z", datetime(1999, 1, 31, 12, tzinfo=UTC)),
    (instant, "2027-01-31 12:00:00+02:00", datetime(2027, 1, 31, 10, tzinfo=UTC)),
    (instant, "2027-01-31T12:00:00-00:30", datetime(2027, 1, 31, 12, 30, tzinfo=UTC)),
    (instant, "2027-01-31T12:00:00.5Z", datetime(2027, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
    (
        instant,
        "2027-01-31T12:00:00.123456789Z",
        datetime(2027, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC),
    ),
)
def test_value_is_read(read: Reader, text: str, value: object) -> None:
    assert read(text) == value


@cases(
    "read, text",
    (label, ""),
    (label, "  "),
    (label, "x" * 201),
    (label, "two\nlines"),
    (label, "bell\a"),
    (label, "\x1b[31mred"),
    (label, "\udcff"),
    (identifier, ""),
    (identifier, "acct_\n"),
    (identifier, "ключ"),
    (usd, ""),
    (usd, "1e3"),
    (usd, "1,5"),
    (usd, "NaN"),
    (usd, "0.0000000001"),
    (usd, "4000000001"),
    (usd_or_more, "-1"),
    (count, "0"),
    (count, "-1"),
    (count, "1.5"),
    (count, ""),
    (count, "none"),
    (count, "٣"),
    (count, "2147483648"),
    (count, "9" * 5000),
    (or_none(count), "None"),
    (sha256_hex, "ab" * 31),
    (sha256_hex, "ab" * 33),
    (sha256_hex, "xy" * 32),
    (sha256_hex, "ab" * 32 + "\n"),
    (instant, "tomorrow"),
    (instant, "2027-01-31"),
    (instant, "2027-01-31T12:00:00"),
    (instant, "2027-01-31T12:00Z"),
    (instant, "2027-02-30T12:00:00Z"),
    (instant, "2027-01-31T24:00:00Z"),
    (instant, "2027-01-31T12:00:60Z"),
    (instant, "2027-01-31T12:00:00+0200"),
    (instant, "2027-01-31T12:00:00+24:00"),
    (instant, "0001-01-01T00:00:00+01:00"),
    (instant, "9999-12-31T23:59:59-01:00"),
    (instant, "1798761600"),
    (instant, "2027-01-31T12:00:00Z\n"),
)
def test_value_is_refused(read: Reader, text: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        read(text)
    assert str(caught.value)


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),
        max_value=datetime(9998, 1, 1),
        timezones=st.integers(min_value=-1439, max_value=1439).map(
            lambda minutes: timezone(timedelta(minutes=minutes))
        ),
    )
)
def test_every_time_is_read_and_written_in_utc(moment: datetime) -> None:
    read = instant(moment.isoformat())
    assert read == moment
    written = rfc3339(read)
    assert written is not None
    assert written.endswith("Z")
    assert instant(written) == moment


@given(st.text(max_size=40))
def test_no_text_is_more_than_refused(text: str) -> None:
    for read in (label, identifier, usd, usd_or_more, count, instant, sha256_hex):
        try:
            read(text)
        except ArgumentTypeError:
            continue


# --- Whole command lines, without the commands: what is understood, and what is not ---

CREATE = ["key", "create", "--account", "acct_1", "--name", "n"]
AGENT_KEY = [*CREATE, "--kind", "agent", "--agent", "g"]
HASH = "ab" * 32


def words(line: str) -> list[str]:
    return line.split()


def parsed(*arguments: str) -> dict[str, Any]:
    options = vars(make_parser(arguments).parse_args(arguments))
    return {name: value for name, value in options.items() if name != "run"}


@cases(
    "arguments",
    ("--json", "--config", "f", "account", "show", "a"),
    ("account", "--json", "--config", "f", "show", "a"),
    ("account", "show", "--json", "--config", "f", "a"),
    ("account", "show", "a", "--config=f", "--json"),
    ("--json", "account", "--config", "f", "show", "a"),
    ("--config", "g", "--json", "account", "--config", "h", "show", "a", "--config", "f"),
)
def test_common_options_stand_anywhere(arguments: tuple[str, ...]) -> None:
    assert parsed(*arguments) == {"config": "f", "json": True, "id": "a"}


@cases(
    "arguments, options",
    (
        ["account", "create", "Ann"],
        {"name": "Ann", "credit_usd": 0, "trial": False, "rpm": None, "concurrency": None},
    ),
    (
        words("account create --rpm 60 --concurrency 2 --trial --credit-usd 0.5 Ann"),
        {"name": "Ann", "credit_usd": 500_000_000, "trial": True, "rpm": 60, "concurrency": 2},
    ),
    (["account", "list"], {}),
    (["account", "topup", "a", "1.5"], {"id": "a", "amount": 1_500_000_000}),
    (
        ["account", "correct", "a", "-5.5", "--reason", " why "],
        {"id": "a", "amount": -5_500_000_000, "reason": "why"},
    ),
    (["account", "topup", "a", "-5"], {"id": "a", "amount": -5_000_000_000}),
    (["account", "limits", "a"], {"id": "a"}),
    (["account", "limits", "a", "--rpm", "none"], {"id": "a", "rpm": None}),
    (["account", "limits", "a", "--concurrency", "7"], {"id": "a", "concurrency": 7}),
    (["account", "enable", "a"], {"id": "a"}),
    (["account", "disable", "a"], {"id": "a"}),
    (["key", "list", "--account", "a"], {"account": "a", "limit": 1000, "cursor": None}),
    (["key", "reveal", "k"], {"id": "k"}),
    (["key", "views", "k"], {"id": "k"}),
    (["key", "enable", "k"], {"id": "k"}),
    (["key", "disable", "k"], {"id": "k"}),
    (["key", "revoke", "k"], {"id": "k"}),
    (["ledger", "verify", "--all"], {"costs": False, "is_everything": True}),
    (["ledger", "verify", "--costs"], {"costs": True, "is_everything": False}),
    (["ledger", "repair"], {"apply": False, "by": None}),
    (["ledger", "repair", "--apply", "--by", " Ann "], {"apply": True, "by": "Ann"}),
    (["check-config"], {"probe": False}),
    (["check-config", "--probe"], {"probe": True}),
    (["init"], {"provider": [], "force": False}),
    (["init", "--provider", "groq", "--force"], {"provider": ["groq"], "force": True}),
    (["matrix"], {"markdown": False}),
    (["matrix", "--markdown"], {"markdown": True}),
    (["serve"], {"processes": 1, "worker": None, "parent_socket": None}),
    (["demo"], {}),
)
def test_command_line_is_understood(arguments: list[str], options: dict[str, Any]) -> None:
    assert parsed(*arguments) == options


def test_new_key_is_unrestricted_unless_it_is_said() -> None:
    plain = {
        "account": "acct_1",
        "name": "n",
        "kind": "console",
        "agent": None,
        "allow": None,
        "allow_none": False,
        "allow_all": False,
        "expires": None,
        "spend_cap_usd": None,
        "account_logs": False,
        "user": "owner",
    }
    assert parsed(*CREATE) == {**plain, "source": None}
    assert parsed("key", "import-hash", *CREATE[2:], "--hash", HASH) == {
        **plain,
        "hash": b"\xab" * 32,
    }
    some = words("--kind agent --agent g --allow m --allow n --spend-cap-usd 0 --account-logs")
    assert parsed(*CREATE, *some) == {
        **plain,
        "source": None,
        "kind": "agent",
        "agent": "g",
        "allow": ["m", "n"],
        "spend_cap_usd": 0,
        "account_logs": True,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["acount"],
        ["account"],
        ["account", "remove", "a"],
        ["account", "create"],
        ["account", "create", ""],
        ["account", "create", "a", "b"],
        ["account", "create", "a", "--credit-usd", "-1"],
        ["account", "create", "a", "--credit", "1"],
        ["account", "create", "a", "--rpm", "0"],
        ["account", "create", "a", "--rpm", "none"],
        ["account", "show"],
        ["account", "topup", "a"],
        ["account", "topup", "a", "much"],
        ["account", "correct", "a", "1"],
        ["account", "correct", "a", "1", "--reason", " "],
        ["account", "limits", "a", "--rpm"],
        ["key", "create", "--name", "n"],
        ["key", "create", "--account", "a"],
        [*CREATE, "--kind", "master"],
        [*CREATE, "--allow", "m", "--allow-none"],
        [*CREATE, "--allow-all"],
        [*CREATE, "--expires", "soon"],
        [*CREATE, "--expires", "none"],
        ["key", "list"],
        ["key", "set"],
        ["key", "set", "k", "--allow", "m", "--allow-all"],
        ["key", "set", "k", "--allow-none", "--allow-all"],
        ["key", "set", "k", "--account-logs", "--no-account-logs"],
        ["key", "import-hash", *CREATE[2:]],
        ["key", "import-hash", *CREATE[2:], "--hash", "12"],
        ["ledger"],
        ["--conf", "f", "account", "list"],
        ["serve", "--processes", "0"],
    ],
)
def test_command_line_that_is_wrong_says_so(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: gw")
    assert "\nerror: " in captured.err

    assert main([*arguments, "--json"]) == 2
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    error = json.loads(line)["error"]
    assert error["code"] == "usage"
    assert f"error: {error['message']}\n" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["account", "limits", "a"], "nothing to set"),
        (["key", "set", "k"], "nothing to set"),
        ([*CREATE, "--agent", "g"], "an agent goes with the kind agent"),
        ([*CREATE, "--kind", "agent"], "an agent goes with the kind agent"),
        ([*AGENT_KEY, "--allow", "m"], "no list of models"),
        ([*AGENT_KEY, "--allow-none"], "no list of models"),
        ([*AGENT_KEY, "--account-logs"], "reads no logs"),
        (["account", "set", "a"], "nothing to set"),
        (["agent", "set", "g"], "nothing to set"),
        (["agent", "usage", "g", "--period", "8d"], "`period` takes"),
        (["agent", "usage", "g", "--from", "2026-01-01"], "given together"),
        (["key", "request", "--account", "a", "--agent", "g", "--name", "n"], "required"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_opened(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--config", "/nowhere"]) == 2
    assert message in capsys.readouterr().err


def test_checks_pass_what_goes_together() -> None:
    for options in ([], ["--kind", "agent", "--agent", "g"]):
        check_create(make_parser(CREATE).parse_args([*CREATE, *options]))
    check_set(Namespace(allow=None, allow_none=False, allow_all=True))
    check_set(Namespace(allow=None, allow_none=False, allow_all=False, expires=None))
    with pytest.raises(UsageFault):
        check_set(Namespace(allow=None, allow_none=False, allow_all=False))


def test_top_up_below_the_minimum_is_refused_before_anything_is_opened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for amount in ("0.999999999", "0", "-1"):
        assert main(["account", "topup", "a", amount, "--config", "/nowhere", "--json"]) == 1
        error = json.loads(capsys.readouterr().out)["error"]
        assert error["code"] == "amount_too_small"
        assert "at least 1 USD" in error["message"]


def test_help_is_there_for_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["account"], ["account", "create"], ["key", "set"], ["serve"]):
        with pytest.raises(SystemExit) as caught:
            main([*command, "--help"])
        assert caught.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: {' '.join(['gw', *command])} ")


@pytest.mark.parametrize("line", ["--version", "account --version", "account show --version"])
def test_version_is_told_wherever_it_is_asked_for(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if line == "--version":
        number, built = version("model-gateway"), commit()
        assert main(words(line)) == 0
        shown = f"gw {number} (commit {built})" if built else f"gw {number}"
        assert capsys.readouterr().out == f"{shown}\n"
        assert main(["--json", "--version"]) == 0
        assert json.loads(capsys.readouterr().out) == {"version": number, "commit": built}
    else:  # only `gw` itself has one
        assert main(words(line)) == 2


# --- How answers are laid out and encoded ---


@cases(
    "value, text",
    (None, "-"),
    (True, "yes"),
    (False, "no"),
    (0, "0"),
    ("", ""),
    ([], "none"),
    (["a", "b"], "a, b"),
    (("a",), "a"),
)
def test_values_are_shown_for_people(value: object, text: str) -> None:
    assert shown(value) == text


def test_instants_are_written_in_utc() -> None:
    assert rfc3339(None) is None
    assert rfc3339(datetime(2027, 1, 2, tzinfo=UTC)) == "2027-01-02T00:00:00Z"
    east = timezone(timedelta(hours=2))
    assert rfc3339(datetime(2027, 1, 2, 0, 0, 0, 5, tzinfo=east)) == "2027-01-01T22:00:00.000005Z"


def test_record_is_one_line_of_ascii() -> None:
    text = to_json(
        {
            "n": "ü\n",
            "d": Decimal("12"),
            "f": Decimal("0.10"),
            "t": datetime.max.replace(tzinfo=UTC),
        }
    )
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text) == {
        "n": "ü\n",
        "d": 12,
        "f": "0.10",
        "t": "9999-12-31T23:59:59.999999Z",
    }
    with pytest.raises(TypeError):
        to_json({"x": object()})


def test_terminal_that_lacks_a_character_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    print_result(Result({}, "Größe"), as_json=False)
    assert written.getvalue() == b"Gr\\xf6\\xdfe\n"


@cases(
    "error, exit_code, code, message",
    (UsageFault("x is wrong", "usage: gw x\n"), 2, "usage", "x is wrong"),
    (CommandRefused("not today", "closed"), 1, "closed", "not today"),
    (UnknownAccount("acct_1"), 1, "account_not_found", "there is no account acct_1"),
    (UnknownKey("key_1"), 1, "key_not_found", "there is no key key_1"),
    (KeyIsRevoked("key_1"), 1, "key_revoked", "revocation is for good"),
    (HashIsTaken("key_1"), 1, "key_exists", "imported before"),
    (NotRevealable("key_1"), 1, "key_not_revealable", "cannot be revealed"),
    (WrongSecret(), 1, "wrong_secret", "another secret"),
    (SecretFault("no entry"), 1, "secret_unavailable", "no entry"),
    (EmbeddedFault("no binaries"), 1, "embedded_database", "no binaries"),
    (MigrationFault("newer"), 1, "migration", "newer"),
    (StoreUnavailable("gone"), 1, "database_unavailable", "cannot be reached: gone"),
    (StatementTimedOut("slow"), 1, "database_unavailable", "slow"),
    (StatementRefused("22003", "too big"), 1, "database_refused", "too big"),
    (ConstraintViolated("c", "no"), 1, "database_refused", "no"),
)
def test_failure_is_put_into_words(
    error: Exception, exit_code: int, code: str, message: str
) -> None:
    failure = failure_of(error)
    assert failure is not None
    assert (failure.exit_code, failure.code) == (exit_code, code)
    assert message in failure.message


def test_fault_of_ours_is_not_dressed_up() -> None:
    assert failure_of(ValueError("bug")) is None


def test_configuration_that_is_missing_or_wrong_ends_with_its_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gw.yaml"
    for command in (["check-config"], ["account", "list"], ["ledger", "verify"], ["serve"]):
        assert main([*command, "--config", str(path)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "no such file" in captured.err
    path.write_text("listen: 8080\nchanels: []\nmodels: []\nchannels: []\n")
    assert main(["check-config", "--json", "--config", str(path)]) == 2
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert error["code"] == "invalid_configuration"
    assert {fault["path"] for fault in error["faults"]} >= {"listen", "chanels"}
    assert "did you mean channels?" in captured.err
    assert "gw.yaml:2:1  chanels" in captured.err


def test_reader_that_has_gone_is_no_traceback(tmp_path: Path) -> None:
    config = tmp_path / "gw.yaml"
    config.write_text("channels: []\nmodels: []\n")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "gw", "check-config", "--config", str(config)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_ctrl_c_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("gw.cli.main._carried_out", interrupted)
    assert main(["account", "list"]) == 130


def every_parser(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """A parser, and those of all commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for inner in action.choices.values():
                yield from every_parser(inner)


def test_every_option_has_words() -> None:
    parsers = list(every_parser(make_parser([])))
    assert len(parsers) > len(NOUNS)
    silent = [
        f"{parser.prog} {'/'.join(action.option_strings) or action.dest}"
        for parser in parsers
        for action in parser._actions
        if not isinstance(action, _SubParsersAction) and not (action.help or "").strip()
    ]
    assert silent == []


def test_every_command_has_words() -> None:
    for parser in every_parser(make_parser([])):
        assert parser.description, parser.prog
        assert parser.format_help()  # each % in words is one of argparse's own
