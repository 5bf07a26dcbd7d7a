"""Faults of the writing itself: each with its line and column, none a traceback."""

from __future__ import annotations

import pytest

from tests.unit.config.reading import channel, fault_of, faults_of, places_of, read


@pytest.mark.parametrize(
    ("text", "line", "column", "found"),
    [
        ("listen: 'abc\n", 2, 1, "end of stream"),
        ("timeouts: {chat: 5\n", 2, 1, "flow mapping"),
        ("a: b: c\n", 1, 5, "mapping values"),
        ("- a\nb: c\n", 2, 1, "block end"),
        ("secret: *unknown\n", 1, 9, "undefined alias"),
        ("secret: @x\n", 1, 9, "'@'"),
        ("secret: %x\n", 1, 9, "'%'"),
        ('secret: "\\q"\n', 1, 11, "escape"),
        ("listen: [::1]:8080\n", 1, 10, "':'"),
        ("secret: a\n---\nsecret: b\n", 2, 1, "another document"),
    ],
)
def test_syntax_error_is_a_fault_with_its_place(
    text: str, line: int, column: int, found: str
) -> None:
    fault = fault_of(text)
    assert (fault.line, fault.column, fault.path) == (line, column, "")
    assert found in fault.found
    assert fault.allowed == "valid YAML"
    assert "quotes" in fault.hint


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("timeouts:\n\tchat: 5\n", 2, 1),
        ("timeouts:\n  chat: 5\n\t connect: 5\n", 3, 1),
        ("listen:\t127.0.0.1:80\n", 1, 8),
    ],
)
def test_tab_is_a_fault_with_its_place(text: str, line: int, column: int) -> None:
    fault = fault_of(text)
    assert (fault.line, fault.column) == (line, column)
    assert "tabs" in fault.hint


@pytest.mark.parametrize("character", ["\0", "\x07", "\x1b", "\x7f", "\ufffe", "\ud800"])
def test_unprintable_character_is_a_fault_with_its_place(character: str) -> None:
    fault = fault_of(f"drain_seconds: 1\nsecret: ab{character}c\n")
    assert (fault.line, fault.column) == (2, 11)
    assert fault.found == f"the character U+{ord(character):04X}"


@pytest.mark.parametrize("text", ["[", "{", "- ", "? "])
def test_nesting_without_end_is_a_fault(text: str) -> None:
    assert faults_of(text * 20_000)


def test_deep_nesting_that_ends_is_a_fault() -> None:
    assert "nested too deep" in fault_of("secret: " + "[" * 5000 + "]" * 5000).found


@pytest.mark.parametrize("text", ['"\\U00110000"', f"%YAML 1.{'9' * 5000}\n---\na: b\n"])
def test_impossible_numbers_of_yaml_are_faults(text: str) -> None:
    assert "cannot be read" in fault_of(text).found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("text", '"text"'),
        ("5", "5"),
        ("true", "true"),
        ("[listen, secret]", "a list of 2"),
        ("[]", "an empty list"),
        ("2023-06-01", "2023-06-01"),
    ],
)
def test_top_level_that_is_no_mapping_is_a_fault(text: str, found: str) -> None:
    fault = fault_of(text)
    assert (fault.line, fault.path, fault.found) == (None, "", found)
    assert fault.allowed.startswith("a mapping of listen, admin_listen,")


def test_key_given_twice_is_a_fault_with_both_places() -> None:
    text = "drain_seconds: 1\ntimeouts:\n  chat: 1\n  connect: 2\n  chat: 3\ndrain_seconds: 2\n"
    first, second = faults_of(text)
    assert (first.line, first.column, first.path) == (5, 3, "timeouts.chat")
    assert first.found == 'the key "chat" again, first in line 3'
    assert (second.line, second.path) == (6, "drain_seconds")


def test_key_given_twice_is_found_below_an_unknown_key() -> None:
    assert places_of("unknown:\n  - a: 1\n    a: 2\n") == [
        (1, "unknown"),
        (3, "unknown[0].a"),
    ]


def test_key_that_is_no_text_is_a_fault() -> None:
    fault = fault_of("? [a, b]\n: c\n")
    assert fault.found == "a key that is no text"


def test_key_that_is_a_number_is_unknown() -> None:
    assert fault_of("5: a\n").found == 'the unknown key "5"'


def test_tags_are_faults() -> None:
    text = "secret: !!python/object:os.system x\nmodels: !custom [1]\nlisten: !!binary aGk=\n"
    faults = faults_of(text)
    assert [(fault.line, fault.path) for fault in faults] == [
        (1, "secret"),
        (2, "models"),
        (3, "listen"),
    ]
    assert '"!custom"' in faults[1].found


def test_tags_of_plain_values_are_taken() -> None:
    config = read("secret: !!str 5555555555555555\ndrain_seconds: !!int 7\nchannels: !!seq []\n")
    assert (config.secret, config.drain_seconds) == ("5555555555555555", 7.0)


def test_surrogates_written_as_json_writes_them_are_joined() -> None:
    text = 'secret: "0123456789abcdef\\ud83d\\ude00"'
    assert read(text).secret == "0123456789abcdef\U0001f600"


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00", "\\ude00\\ud83d"])
def test_half_of_a_surrogate_pair_is_a_fault(half: str) -> None:
    fault = fault_of(f'drain_seconds: 1\nsecret: "a{half}"\n')
    assert (fault.line, fault.path) == (2, "secret")
    assert "surrogate" in fault.found


def test_half_of_a_surrogate_pair_in_a_key_is_a_fault() -> None:
    assert fault_of('"\\ud83d": 1\n').found == "a key that is no text"


def test_anchor_serves_more_than_once() -> None:
    text = channel("health: &h {failures: 2, cooldown: 3}") + (
        "  - {id: b, base_url: http://b, api_key: k, protocols: [chat], health: *h}\n"
    )
    channels = read(text).registry.channels
    assert channels["a"].health == channels["b"].health
    assert channels["b"].health.failures == 2


def test_merge_gives_way_to_what_is_written() -> None:
    text = """
        channels:
          - &first {id: a, base_url: http://a, api_key: k, protocols: [chat], priority: 3}
          - {id: b, <<: *first, priority: 4}
          - <<: [{priority: 5}, *first]
            id: c
    """
    channels = read(text).registry.channels
    assert [channels[name].priority for name in "abc"] == [3, 4, 5]
    assert channels["c"].base_url == "http://a"


def test_merge_of_anything_else_is_a_fault() -> None:
    fault = fault_of("drain_seconds: 1\n<<: 5\n")
    assert (fault.line, fault.path, fault.found) == (2, '["<<"]', "5")


def test_alias_to_what_it_is_part_of_is_a_fault() -> None:
    fault = fault_of("messages_versions: &v ['1', *v]\n")
    assert (fault.line, fault.path) == (1, "messages_versions[1]")
    assert "part of" in fault.found


def test_aliases_that_multiply_are_read_in_no_time() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert len(faults_of("\n".join(lines))) == 12
