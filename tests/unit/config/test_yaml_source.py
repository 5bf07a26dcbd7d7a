"""The text of a configuration: YAML, substitutions from the environment, faults of both."""

import pytest

from gw.config.faults import ConfigFaults, Fault, FaultReport, Mark, render
from gw.config.substitution import SubstitutionFault, shielded, substitute, unshielded
from tests.support.rows import cases, each
from tests.unit.config.reading import channel, fault_of, faults_of, places_of, read


@cases(
    "text, line, column, found",
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
)
def test_syntax_error_is_a_fault_with_its_place(
    text: str, line: int, column: int, found: str
) -> None:
    fault = fault_of(text)
    assert (fault.line, fault.column, fault.path) == (line, column, "")
    assert found in fault.found
    assert fault.allowed == "valid YAML"
    assert "quotes" in fault.hint


@cases(
    "text, line, column",
    ("timeouts:\n\tchat: 5\n", 2, 1),
    ("timeouts:\n  chat: 5\n\t connect: 5\n", 3, 1),
    ("listen:\t127.0.0.1:80\n", 1, 8),
)
def test_tab_is_a_fault_with_its_place(text: str, line: int, column: int) -> None:
    fault = fault_of(text)
    assert (fault.line, fault.column) == (line, column)
    assert "tabs" in fault.hint


@cases("character", "\0", "\x07", "\x1b", "\x7f", "\ufffe", "\ud800")
def test_unprintable_character_is_a_fault_with_its_place(character: str) -> None:
    fault = fault_of(f"drain_seconds: 1\nsecret: ab{character}c\n")
    assert (fault.line, fault.column) == (2, 11)
    assert fault.found == f"the character U+{ord(character):04X}"


@cases("text", "[", "{", "- ", "? ")
def test_nesting_without_end_is_a_fault(text: str) -> None:
    assert faults_of(text * 20_000)


@cases(
    "text, found",
    ("text", '"text"'),
    ("5", "5"),
    ("true", "true"),
    ("[listen, secret]", "a list of 2"),
    ("[]", "an empty list"),
    ("2023-06-01", "2023-06-01"),
)
def test_top_level_that_is_no_mapping_is_a_fault(text: str, found: str) -> None:
    fault = fault_of(text)
    assert (fault.line, fault.path, fault.found) == (None, "", found)
    assert fault.allowed.startswith("a mapping of listen, admin_listen,")


NO_TEXT = "a key that is no text"
# What is written, the environment, the fault's line and path, and what it has found.
ODD: list[tuple[str, dict[str, str], int | None, str, str]] = [
    ("secret: " + "[" * 5000 + "]" * 5000, {}, None, "", "nested too deep"),
    ('"\\U00110000"', {}, None, "", "cannot be read"),
    (f"%YAML 1.{'9' * 5000}\n---\na: b\n", {}, None, "", "cannot be read"),
    ("? [a, b]\n: c\n", {}, 1, '["?"]', NO_TEXT),
    ('"\\ud83d": 1\n', {}, 1, '["?"]', NO_TEXT),
    ("5: a\n", {}, 1, '["5"]', 'the unknown key "5"'),
    *(
        (f'drain_seconds: 1\nsecret: "a{half}"\n', {}, 2, "secret", "surrogate")
        for half in ("\\ud83d", "\\ude00", "\\ude00\\ud83d")
    ),
    ("drain_seconds: 1\n<<: 5\n", {}, 2, '["<<"]', "5"),
    ("messages_versions: &v ['1', *v]\n", {}, 1, "messages_versions[1]", "part of"),
    ("messages_versions:\n  - '1'\n  - ${V}\n", {}, 3, "messages_versions[1]", "${V}, which is"),
    ("secret: ${S}", {"S": "caf\udce9"}, 1, "secret", "UTF-8"),
    ("drain_seconds: ${DRAIN}", {"DRAIN": "soon"}, 1, "drain_seconds", '"soon" from ${DRAIN}'),
    ("listen: ${A_KEY}", {"A_KEY": "hidden"}, 1, "listen", "text from ${A_KEY} (not shown)"),
]


@each("text, environ, line, path, found", ODD)
def test_what_cannot_be_meant_is_a_fault_with_its_place(
    text: str, environ: dict[str, str], line: int | None, path: str, found: str
) -> None:
    fault = fault_of(text, **environ)
    assert (fault.line, fault.path) == (line, path)
    assert found in fault.found
    assert "hidden" not in repr(fault)


def test_key_given_twice_is_a_fault_with_both_places() -> None:
    text = "drain_seconds: 1\ntimeouts:\n  chat: 1\n  connect: 2\n  chat: 3\ndrain_seconds: 2\n"
    first, second = faults_of(text)
    assert (first.line, first.column, first.path) == (5, 3, "timeouts.chat")
    assert first.found == 'the key "chat" again, first in line 3'
    assert (second.line, second.path) == (6, "drain_seconds")


def test_key_given_twice_is_found_below_an_unknown_key() -> None:
    assert places_of("unknown:\n  - a: 1\n    a: 2\n") == [(1, "unknown"), (3, "unknown[0].a")]


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


def test_aliases_that_multiply_are_read_in_no_time() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert len(faults_of("\n".join(lines))) == 12


ENVIRON = {"NAME": "value", "_a1": "x", "EMPTY": "", "TRICKY": "${NAME} $${ \\1 }"}


@cases(
    "text, expected",
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
)
def test_text_is_filled_in(text: str, expected: str) -> None:
    assert substitute(text, ENVIRON)[0] == expected


def test_names_that_were_used_are_reported() -> None:
    assert substitute("${NAME} ${UNSET:-x} $${_a1}", ENVIRON)[1] == ("NAME", "UNSET")


@cases("text", "${}", "${1A}", "${A-b}", "${A:?b}", "${A B}", "${A", "${", "${ä}", "x ${A\n}")
def test_broken_substitution_is_a_fault(text: str) -> None:
    with pytest.raises(SubstitutionFault) as caught:
        substitute(text, {"A": "a"})
    assert "${NAME:-text}" in caught.value.allowed
    assert "$${" in caught.value.hint


def test_value_of_a_variable_never_changes_the_structure() -> None:
    value = "a: b, [c] # d 'e' \"f\" {g}"
    assert read("secret: ${GW_SECRET}", GW_SECRET=value).secret == value


def test_value_of_a_variable_stays_text_where_text_is_wanted() -> None:
    for value in ("12345", "true", "null", "2023-06-01", "1.0", "~"):
        config = read(channel("health: {}").replace("key\n", "${KEY}\n"), KEY=value)
        assert config.registry.channels["a"].api_key == value


@cases("written", "${N}", '"${N}"', "${M:-7}", "'${M:-7}'")
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


@cases(
    "text, variable, expected",
    ("", None, "info"),
    ("", "", "info"),
    ("", "debug", "debug"),
    ("log_level: error", "debug", "error"),
    ("log_level:", "debug", "debug"),
    ("log_level: error", "nonsense", "error"),
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


@cases(
    "text",
    'secret: 1\n"\\e[31m": 2\n',
    'listen: "\\e]0;title\\a"\n',
    'translations: ["\\r\\nfaked: line", "\\u2028", "\\x9b31m", "\\u202e"]\n',
    'listen: !<\\e> "x"\n',
    '"\\n": {"\\0": 1}\n',
)
def test_table_holds_no_control_characters(text: str) -> None:
    table = render(faults_of(text))
    assert all(character.isprintable() or character == "\n" for character in table)


@cases(
    "text",
    "listen: https://user:hidden@host/path\n",
    "listen: https://host/path?key=hidden&x=hidden\n",
    "listen: sk-platform-hiddenhiddenhidden\n",
    "listen: Bearer hidden-hidden\n",
    "listen: AIzahiddenhidden\n",
    "listen: ${APP_SECRET:-hidden}\n",
)
def test_table_masks_credentials_in_the_wrong_place(text: str) -> None:
    assert "hidden" not in render(faults_of(text))


def test_long_value_is_cut() -> None:
    (fault,) = faults_of(f"listen: {'x' * 1000}")
    assert len(fault.found) < 100
    assert fault.found.endswith('…"')
