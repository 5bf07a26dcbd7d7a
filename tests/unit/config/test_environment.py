from __future__ import annotations

import pytest

from gw.config.yaml_source import SubstitutionFault, shielded, substitute, unshielded
from tests.unit.config.reading import channel, fault_of, read

ENVIRON = {"NAME": "value", "_a1": "x", "EMPTY": "", "TRICKY": "${NAME} $${ \\1 }"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain $ text $NAME {NAME}", "plain $ text $NAME {NAME}"),
        ("${NAME}", "value"),
        ("${NAME}-${_a1}${NAME}", "value-xvalue"),
        ("${EMPTY}", ""),
        ("${NAME:-text}", "value"),
        ("${UNSET:-text}", "text"),
        ("${EMPTY:-text}", "text"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a:-b, $c #{}", "a:-b, $c #{"),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$${NAME}"),
        ("$${${NAME}", "${value"),
        ("${TRICKY}", "${NAME} $${ \\1 }"),
    ],
)
def test_text_is_filled_in(text: str, expected: str) -> None:
    assert substitute(text, ENVIRON)[0] == expected


def test_names_that_were_used_are_told() -> None:
    assert substitute("${NAME} ${UNSET:-x} $${_a1}", ENVIRON)[1] == ("NAME", "UNSET")


@pytest.mark.parametrize(
    "text", ["${}", "${1A}", "${A-b}", "${A:?b}", "${A B}", "${A", "${", "${ä}", "x ${A\n}"]
)
def test_broken_substitution_is_a_fault(text: str) -> None:
    with pytest.raises(SubstitutionFault) as caught:
        substitute(text, {"A": "a"})
    assert "${NAME:-text}" in caught.value.allowed
    assert "$${" in caught.value.hint


def test_unset_variable_is_a_fault_with_its_place() -> None:
    fault = fault_of("drain_seconds: 1\nsecret: x${GW_SECRET}\n")
    assert (fault.line, fault.column, fault.path) == (2, 1, "secret")
    assert fault.found == "${GW_SECRET}, which is not set"
    assert "${NAME:-text}" in fault.allowed
    assert "GW_SECRET" in fault.hint


def test_unset_variable_in_a_list_is_a_fault_with_its_place() -> None:
    fault = fault_of("messages_versions:\n  - '2023-06-01'\n  - ${VERSION}\n")
    assert (fault.line, fault.path) == (3, "messages_versions[1]")


def test_variable_whose_bytes_are_no_text_is_a_fault() -> None:
    fault = fault_of("secret: ${GW_SECRET}", GW_SECRET="caf\udce9")
    assert fault.path == "secret"
    assert "UTF-8" in fault.found


def test_value_of_a_variable_never_changes_the_structure() -> None:
    value = "a: b, [c] # d 'e' \"f\" {g}"
    assert read("secret: ${GW_SECRET}", GW_SECRET=value).secret == value


def test_value_of_a_variable_stays_text_where_text_is_wanted() -> None:
    for value in ("12345", "true", "null", "2023-06-01", "1.0", "~"):
        config = read(channel("health: {}").replace("key\n", "${KEY}\n"), KEY=value)
        assert config.registry.channels["a"].api_key == value


@pytest.mark.parametrize("written", ["${N}", '"${N}"', "${M:-7}", "'${M:-7}'"])
def test_value_of_a_variable_is_a_number_where_a_number_is_wanted(written: str) -> None:
    config = read(channel(f"priority: {written}\nhealth: {{cooldown: {written}}}"), N="7")
    assert config.registry.channels["a"].priority == 7
    assert config.registry.channels["a"].health.cooldown_seconds == 7.0


def test_value_of_a_variable_is_true_false_or_nothing_where_that_is_wanted() -> None:
    text = "models: [{id: m, callable: ${C}, context_size: ${S:-}, endpoint_type: ${E:-null}}]"
    model = read(text, C="false").registry.models["m"]
    assert model.callable is False
    assert model.context_size is None
    assert model.endpoint_type is None


def test_wrong_value_of_a_variable_is_shown_with_its_name() -> None:
    fault = fault_of("drain_seconds: ${DRAIN}", DRAIN="soon")
    assert fault.found == '"soon" from ${DRAIN}'


def test_wrong_value_of_a_variable_that_sounds_secret_is_not_shown() -> None:
    fault = fault_of("listen: ${OPENAI_KEY}", OPENAI_KEY="hidden")
    assert fault.found == "text from ${OPENAI_KEY} (not shown)"
    assert "hidden" not in repr(fault)


def test_substitution_needs_no_quotes_inside_braces_and_brackets() -> None:
    text = """
        timeouts: {connect: ${CONNECT:-5}, chat: ${CHAT:-100}}
        messages_versions: [${FIRST:-a,b:[c]}, 'x', "${SECOND:-y}"]
    """
    config = read(text, CONNECT="2")
    assert (config.timeouts.connect, config.timeouts.chat) == (2.0, 100.0)
    assert config.messages_versions == ("a,b:[c]", "x", "y")


def test_literal_substitution_in_quotes_ends_with_its_quotes() -> None:
    text = """{models: [{id: '$${', aliases: ["$${A:-", '$${B}']}], timeouts: {}}"""
    model = read(text).registry.models["${"]
    assert model.aliases == ("${A:-", "${B}")


def test_comment_may_hold_a_substitution() -> None:
    assert read("drain_seconds: 4 # not ${UNSET} nor ${\n").drain_seconds == 4.0


def test_shield_keeps_length_and_is_undone() -> None:
    text = "a: {b: ${C:-d, #[e]}, f: $${g}}"
    assert len(shielded(text)) == len(text)
    assert shielded(text) != text
    assert unshielded(shielded(text)) == text


def test_text_with_the_shields_own_characters_is_left_alone() -> None:
    text = "a: \U000f0000 ${B:-c}"
    assert shielded(text) == text


@pytest.mark.parametrize(
    ("text", "variable", "expected"),
    [
        ("", None, "info"),
        ("", "", "info"),
        ("", "debug", "debug"),
        ("log_level: error", "debug", "error"),
        ("log_level:", "debug", "debug"),
        ("log_level: error", "nonsense", "error"),
    ],
)
def test_log_level_of_the_file_goes_before_that_of_the_environment(
    text: str, variable: str | None, expected: str
) -> None:
    environ = {} if variable is None else {"GW_LOG_LEVEL": variable}
    assert read(text, **environ).log_level == expected


def test_log_level_of_the_environment_that_is_none_is_a_fault() -> None:
    fault = fault_of("drain_seconds: 1", GW_LOG_LEVEL="loud")
    assert fault.path == "log_level"
    assert fault.found == 'GW_LOG_LEVEL="loud" in the environment'
    assert "debug, info" in fault.allowed
