"""Every kind of bad value, each with its exact place, what was found and what is allowed."""

from pathlib import Path

from channels.families import ENDPOINT_TYPES
from gw.config.config import Certificate
from tests.support.rows import cases, each
from tests.unit.config.reading import (
    SOURCE,
    channel,
    check_fault,
    fault_of,
    faults_of,
    model,
    places_of,
    read,
)

OPEN = model().replace("- id: a", "- id: open-a")
CHAT = channel().replace("[chat]", "%s")
ONE = "channels[0]"
S3 = "kind: s3, endpoint: 'https://s3.example', access_key: k"
# text, line, path, part of what was found, part of what is allowed, part of the hint
BAD_VALUES = [
    # numbers
    ("events: {keep_days: 0}", 1, "events.keep_days", "0", "above 0", ""),
    ("events: {keep_days: 4000}", 1, "events.keep_days", "4000", "up to 3650", ""),
    ("events: {keep_days: -1e-3}", 1, "events.keep_days", "-1e-3", "above 0", ""),
    ("events: {keep_days: .inf}", 1, "events.keep_days", ".inf", "above 0", ""),
    ("events: {keep_days: 010}", 1, "events.keep_days", "010", "above 0", ""),
    ("events: {call_settled: 1}", 1, "events.call_settled", "1", "true or false", ""),
    ("drain_seconds: soon", 1, "drain_seconds", '"soon"', "seconds", ""),
    ("drain_seconds: -1", 1, "drain_seconds", "-1", "from 0", ""),
    ("drain_seconds: .inf", 1, "drain_seconds", ".inf", "plain decimal", "exponent"),
    ("drain_seconds: .nan", 1, "drain_seconds", ".nan", "plain decimal", ""),
    ("drain_seconds: 1.5e+3", 1, "drain_seconds", "1.5e+3", "plain decimal", "exponent"),
    ("drain_seconds: 010", 1, "drain_seconds", "010", "plain decimal", ""),
    ("drain_seconds: 1:30", 1, "drain_seconds", "1:30", "plain decimal", ""),
    ("drain_seconds: true", 1, "drain_seconds", "true", "plain decimal", ""),
    ("drain_seconds:", 1, "drain_seconds", "nothing", "plain decimal", ""),
    ("drain_seconds: [5]", 1, "drain_seconds", "a list of 1", "plain decimal", ""),
    ("drain_seconds: '5'", 1, "drain_seconds", '"5"', "plain decimal", "without quotes"),
    ("max_body_mb: 0", 1, "max_body_mb", "0", "above 0 and up to 1024", ""),
    ("max_body_mb: 1025", 1, "max_body_mb", "1025", "1024", ""),
    ("idempotency_max_kb: -1", 1, "idempotency_max_kb", "-1", "from 0", ""),
    ("timeouts: {chat: 0}", 1, "timeouts.chat", "0", "above 0", ""),
    ("media_store: {kind: disk}", 1, "media_store.kind", "disk", "none, local, s3", ""),
    ("media_store: {max_gb: 0}", 1, "media_store.max_gb", "0", "above 0", ""),
    (f"media_store: {{{S3}, bucket: b}}", 1, "media_store.secret_key", "nothing", "kind is s3", ""),
    (f"kb_store: {{{S3}, secret_key: s}}", 1, "kb_store.bucket", "nothing", "kind is s3", ""),
    ("kb_store: {kind: disk}", 1, "kb_store.kind", "disk", "local, s3", ""),
    ("tasks: {poll_factor: 0.99}", 1, "tasks.poll_factor", "0.99", "from 1 to", ""),
    ("tasks: {poll_first: 0}", 1, "tasks.poll_first", "0", "above 0", ""),
    ("tasks: {lease: -1}", 1, "tasks.lease", "-1", "above 0", ""),
    ("tasks: {deadline: 0.0}", 1, "tasks.deadline", "0.0", "above 0", ""),
    ("tasks: {poll_concurrency: 1.5}", 1, "tasks.poll_concurrency", "1.5", "whole", ""),
    ("timeouts:\n  connect: yes", 2, "timeouts.connect", "yes", "seconds", ""),
    (channel("max_concurrency: 0"), 6, "channels[0].max_concurrency", "0", "from 1", ""),
    (channel("max_concurrency: 1.5"), 6, "channels[0].max_concurrency", "1.5", "whole", ""),
    (channel("max_concurrency: true"), 6, "channels[0].max_concurrency", "true", "whole", ""),
    (channel("priority: high"), 6, "channels[0].priority", '"high"', "whole", ""),
    (channel("priority: 0x10"), 6, "channels[0].priority", "0x10", "whole", ""),
    (channel(f"priority: {'9' * 5000}"), 6, "channels[0].priority", "999…", "whole", ""),
    (channel("health: {failures: 0}"), 6, "channels[0].health.failures", "0", "from 1", ""),
    (channel("health: {cooldown: -1}"), 6, "channels[0].health.cooldown", "-1", "from 0", ""),
    (channel("first_event_seconds: 0"), 6, "channels[0].first_event_seconds", "0", "above 0", ""),
    (channel("health: 5"), 6, "channels[0].health", "5", "failures, cooldown", ""),
    (model("max_output_tokens: 0"), 10, "models[0].max_output_tokens", "0", "from 1", ""),
    (model("context_size: big"), 10, "models[0].context_size", '"big"', "whole", ""),
    (model("created: -1"), 10, "models[0].created", "-1", "from 0", ""),
    # text
    ("secret: 12345", 1, "secret", "a whole number (not shown)", "a secret", "quotes"),
    ("secret: {hidden: 1}", 1, "secret", "a mapping", "a secret", ""),
    ("secret: [a]", 1, "secret", "a list of 1", "a secret", ""),
    ('secret: "0123456789abcdef\\nb"', 1, "secret", "(not shown)", "in one line", "line break"),
    ("secret: set this to 32 bytes in hex", 1, "secret", "placeholder", "16 characters", ""),
    ("secret: short", 1, "secret", "5 characters (not shown)", "16 characters or more", ""),
    ("secret: abcdefghijklmno", 1, "secret", "15 characters", "or empty for one that is made", ""),
    ("log_level: loud", 1, "log_level", '"loud"', "debug, info, warning, error, critical", ""),
    ("log_level: warn", 1, "log_level", '"warn"', "debug, info", "warning"),
    ("data_dir: ''", 1, "data_dir", "an empty text", "a folder", ""),
    ("data_dir: ~/var", 1, "data_dir", '"~/var"', "without ~", "${HOME}"),
    ("data_dir: ~", 1, "data_dir", "nothing", "a folder", ""),
    (f"data_dir: {'x' * 5000}", 1, "data_dir", "5000 characters", "4096", ""),
    (channel("id: true").replace("  - id: a\n   ", "  -", 1), 5, "channels[0].id", "true", "", ""),
    (channel(channel_id="'a b'"), 2, "channels[0].id", '"a b"', "without spaces", ""),
    (channel(channel_id="'a,b'"), 2, "channels[0].id", '"a,b"', "commas", ""),
    (channel(channel_id="5"), 2, "channels[0].id", "5", "a channel id", "quotes"),
    (channel(channel_id="''"), 2, "channels[0].id", "an empty text", "a channel id", ""),
    (model("display_name: 4.1"), 10, "models[0].display_name", "4.1", "text", "quotes"),
    ("messages_versions: [2023 06]", 1, "messages_versions[0]", '"2023 06"', "ASCII", ""),
    ("cors_origins: ['app://a/']", 1, "cors_origins[0]", "a/", "without a path", ""),
    ("admin_hosts: ['gw:9090']", 1, "admin_hosts[0]", '"gw:9090"', "without a port", ""),
    ("webhooks: {allow: [10.1.0.1/16]}", 1, "webhooks.allow[0]", "10.1.0.1/16", "", "bits behind"),
    ("webhooks: {allow: ['gw:9090']}", 1, "webhooks.allow[0]", '"gw:9090"', "without a port", ""),
    ("webhooks: {allow: [10.1.0]}", 1, "webhooks.allow[0]", "10.1.0", "a network", ""),
    ("webhooks: {allow: [a b]}", 1, "webhooks.allow[0]", '"a b"', "a network", ""),
    (f"webhooks: {{retry_seconds: {[1] * 51}}}", 1, "webhooks.retry_seconds", "51", "most 50", ""),
    ("webhooks: {retry_seconds: [0]}", 1, "webhooks.retry_seconds[0]", "0", "above 0", ""),
    ("messages_versions: []", 1, "messages_versions", "an empty list", "at least 1", ""),
    # truth values
    (model("callable: 1"), 10, "models[0].callable", "1", "true or false", ""),
    (model("callable: 'false'"), 10, "models[0].callable", '"false"', "true", "quotes"),
    # lists and mappings
    ("channels: {id: a}", 1, "channels", "a mapping with id", "a list of channels", "dash"),
    ("channels: [a]", 1, "channels[0]", '"a"', "a mapping of id, base_url", ""),
    ("models: m", 1, "models", '"m"', "a list of models", "dash"),
    ("timeouts: [5]", 1, "timeouts", "a list of 1", "a mapping of connect, chat", ""),
    (channel("tools: web_search"), 6, "channels[0].tools", '"web_search"', "a list", "[ ]"),
    (channel("tools: [web_search, 5]"), 6, "channels[0].tools[1]", "5", "web_search", ""),
    (channel("health: {failures: [1]}"), 6, "channels[0].health.failures", "a list", "", ""),
    (model("aliases: other"), 10, "models[0].aliases", '"other"', "a list", "dash"),
    (model("aliases: [{a: b}]"), 10, "models[0].aliases[0]", "a mapping with a", "alias", ""),
    # money
    (model(price="{input: -1, output: 2}"), 9, "models[0].price.input", "-1", "from 0", ""),
    (model(price="{input: .nan, output: 2}"), 9, "models[0].price.input", ".nan", "", ""),
    (model(price="{input: inf, output: 2}"), 9, "models[0].price.input", '"inf"', "", ""),
    (model(price="{input: 1e-3, output: 2}"), 9, "models[0].price.input", "1e-3", "", "exponent"),
    (model(price="{input: 1.0e+3, output: 2}"), 9, "models[0].price.input", "1.0e+3", "", ""),
    (model(price="{input: '1e3', output: 2}"), 9, "models[0].price.input", '"1e3"', "", ""),
    (model(price="{input: 1.0000000000001, output: 2}"), 9, "models[0].price.input", "1.0", "", ""),
    (model(price="{input: ' 1', output: 2}"), 9, "models[0].price.input", '" 1"', "", ""),
    (model(price="{input: '+1', output: 2}"), 9, "models[0].price.input", '"+1"', "", "no sign"),
    (model(price="{input: .5, output: 2}"), 9, "models[0].price.input", ".5", "", "digits"),
    (model(price="{input: '٣', output: 2}"), 9, "models[0].price.input", '"٣"', "", ""),
    (model(price="{input: $1, output: 2}"), 9, "models[0].price.input", '"$1"', "USD", ""),
    (model(price="{input: 1_000, output: 2}"), 9, "models[0].price.input", "1_000", "", ""),
    (model(price="{input: 1000001, output: 2}"), 9, "models[0].price.input", "", "1000000", ""),
    (model(price="{input: true, output: 2}"), 9, "models[0].price.input", "true", "price", ""),
    (model("multiplier: 0"), 10, "models[0].multiplier", "0", "above 0", ""),
    (model("multiplier: '-0.3'"), 10, "models[0].multiplier", "-0.3", "above 0", ""),
    ("credits_per_usd: 0", 1, "credits_per_usd", "0", "above 0", ""),
    # addresses
    ("listen: 8080", 1, "listen", "8080", "host:port", "127.0.0.1:8080"),
    ("listen: 127.0.0.1", 1, "listen", "127.0.0.1", "host:port", ""),
    ("listen: 127.0.0.1:65536", 1, "listen", "65536", "0 to 65535", ""),
    ("listen: 127.0.0.1:-1", 1, "listen", "-1", "0 to 65535", ""),
    ("listen: 127.0.0.1:http", 1, "listen", "http", "host:port", ""),
    ("listen: 127.0.0.256:80", 1, "listen", "256", "host:port", ""),
    ("listen: ::1:80", 1, "listen", '"::1:80"', "[::1]:8080", "brackets"),
    ("listen: '[::g]:80'", 1, "listen", '"[::g]:80"', "[::1]:8080", ""),
    ("listen: :8080", 1, "listen", '":8080"', "host:port", "0.0.0.0:8080"),
    ("listen: '*:8080'", 1, "listen", '"*:8080"', "host:port", "0.0.0.0:8080"),
    ("listen: http://localhost:80", 1, "listen", "http://", "host:port", "without http://"),
    ("admin_listen: 'a b:80'", 1, "admin_listen", '"a b:80"', "host:port", ""),
    # URLs
    ("database_url: mysql://u:hidden@h/d", 1, "database_url", "mysql://", "postgresql://", ""),
    ("database_url: u:hidden@h/d", 1, "database_url", "not shown", "postgresql://", ""),
    ("redis_url: http://:hidden@h", 1, "redis_url", "http://", "redis://", ""),
    ("redis_url: 'redis://a hidden'", 1, "redis_url", "space", "redis://", ""),
    ("redis_url: redis://", 1, "redis_url", "without a host", "redis://", ""),
    ("redis_url: redis://:hidden@", 1, "redis_url", "without a host", "redis://", ""),
    ("redis_url: redis://h:hidden", 1, "redis_url", "host and port", "redis://", ""),
    ("redis_url: redis://h:99999", 1, "redis_url", "host and port", "redis://", ""),
    ("redis_url: redis://h:0", 1, "redis_url", "port 0", "redis://", ""),
    ("redis_url: redis://h/hidden", 1, "redis_url", "number of a database", "redis://", ""),
    ("redis_url: redis://h/1#hidden", 1, "redis_url", "%23", "redis://", ""),
    ("redis_url: redis://h?hidden=1", 1, "redis_url", "option", "redis://", ""),
    ("redis_url: redis://h?db=hidden", 1, "redis_url", "db is no number", "redis://", ""),
    ("redis_url: redis://h?socket_timeout=0", 1, "redis_url", "socket_timeout", "redis://", ""),
    ("redis_url: redis://h?socket_timeout=", 1, "redis_url", "socket_timeout", "redis://", ""),
    ("redis_url: unix://hidden", 1, "redis_url", "three slashes", "unix:///path", ""),
    ("redis_url: unix:///", 1, "redis_url", "three slashes", "unix:///path", ""),
]

BAD_BASE_URLS = [
    ("a.example", "begin with https://"),
    ("ftp://a.example", ""),
    ("https://", ""),
    ("https://a.example/v1?x=hidden", "no query"),
    ("https://a.example/../v1", ""),
    ("https://a.example//v1", ""),
    ("'https://a.example/a b'", ""),
    ("https://a.example?key=hidden", "no query"),
    ("'https://a.example#x'", "no fragment"),
    ("https://user:hidden@a.example", "api_key"),
    ("https://a.example:0", ""),
    ("https://a.example:70000", ""),
    ("https://a.example:https", ""),
    ("https://a .example", ""),
    ("https://300.1.1.1", ""),
    ("https://[::1", ""),
    ("'https://[1.2.3.4]'", ""),
    ('"https://a.example\\n"', ""),
    ("https://-a.example", ""),
    ("[a]", ""),
    ("5", "quotes"),
]


@each("case", BAD_VALUES)
def test_bad_value_is_a_fault_with_its_place(case: tuple[str, int, str, str, str, str]) -> None:
    check_fault(*case)


@each("written, hint", BAD_BASE_URLS)
def test_bad_base_url_is_a_fault_with_its_place(written: str, hint: str) -> None:
    fault = fault_of(channel().replace("https://a.example", written))
    assert (fault.line, fault.path) == (3, "channels[0].base_url")
    assert "with a path" in fault.allowed
    assert hint in fault.hint
    assert "hidden" not in repr(fault)


@cases("key", '"a b"', '"kéy"', '"a\\nX-Evil: 1"', "12345", "true", "{a: hidden}")
def test_api_key_that_no_header_takes_is_a_fault_that_does_not_show_it(key: str) -> None:
    fault = fault_of(channel().replace("api_key: key", f"api_key: {key}"))
    assert (fault.line, fault.path) == (4, "channels[0].api_key")
    assert key.strip('"') not in fault.found.removeprefix("true or false")
    assert "hidden" not in fault.found


# text, line, path, part of what was found, part of what is allowed, part of the hint
BAD_CHOICES = [
    ("translations: [chat_to_nativ]", 1, "translations[0]", "chat_to_nativ", "native_to_", "ve?"),
    ("translations: [chat_to_native, chat_to_native]", 1, "translations[1]", "again", "once", ""),
    (channel("tools: [Web-Search]"), 6, f"{ONE}.tools[0]", '"Web-S', "one of web_", "web_search?"),
    (channel("system_turns: last"), 6, f"{ONE}.system_turns", "last", "anywhere, first", ""),
    (channel("on_429: retry"), 6, f"{ONE}.on_429", "retry", "client, next", ""),
    (channel("data: {retention_days: -1}"), 6, f"{ONE}.data.retention_days", "-1", "to 36500", ""),
    (channel("data: {retention_days: 0.5}"), 6, f"{ONE}.data.retention_days", "0.5", "whole", ""),
    (channel("data: {region: EU}"), 6, f"{ONE}.data.region", "EU", "such as eu", ""),
    (channel("data: {region: [eu]}"), 6, f"{ONE}.data.region", "list", "such as eu", ""),
    (channel("data: {retention: 0}"), 6, f"{ONE}.data.retention", "retention", "", "retention_d"),
    (channel("data: eu"), 6, f"{ONE}.data", "eu", "mapping", ""),
    (channel("max_tokens_param: tokens"), 6, f"{ONE}.max_tokens_param", "tokens", "max_", "?"),
    (CHAT % "[chat, mesages]", 5, f"{ONE}.protocols[1]", "mesages", "responses, na", "messages?"),
    (CHAT % "[native_content]", 5, f"{ONE}.protocols[0]", "native_c", "native", "native?"),
    (CHAT % "[]", 5, f"{ONE}.protocols", "an empty", "at least 1", ""),
    (CHAT % "", 5, f"{ONE}.protocols", "nothing", "at least 1", ""),
    (model("capabilities: [tool]"), 10, "models[0].capabilities[0]", "tool", "video_gen", "tools?"),
    (model("endpoint_type: chat"), 10, "models[0].endpoint_type", "chat", "null for a chat", ""),
    (model("endpoint_type: videos"), 10, "models[0].endpoint_type", "", "tasks", "videos_"),
    # between keys
    (channel().replace("base_url", "base_ulr"), 3, f"{ONE}.base_ulr", "unknown", "", "base_url?"),
    ("models: [{id: m},\n {callable: no,\n id: m}]", 3, "models[1].id", "models[0].id al", "", ""),
    (OPEN.replace("[a]", "[opn-a]"), 8, "models[0].channels[0]", "opn-a", "one of open-a", "n-a?"),
    ("models: [{id: m, callable: no, channels: [a]}]", 1, "models[0].channels[0]", "a", "none", ""),
    (model().replace("[a]", "[a, {id: a, as: b}]"), 8, "models[0].channels[1].id", "again", "", ""),
    (channel("kind: opnai"), 6, f"{ONE}.kind", "opnai", "openai, azure-openai", "mean openai?"),
]


@each("case", BAD_CHOICES)
def test_value_out_of_a_list_is_a_fault_with_its_place(
    case: tuple[str, int, str, str, str, str],
) -> None:
    check_fault(*case)


@cases(
    "text, path, hint",
    ("lisen: 127.0.0.1:80", "lisen", "did you mean listen?"),
    ("max-body-mb: 1", "max-body-mb", "did you mean max_body_mb?"),
    ("Channels: []", "Channels", "did you mean channels?"),
    ("models:\n  - {id: m, alias: [x]}", "models[0].alias", "did you mean aliases?"),
    ("timeouts: {chatt: 5, chat: 6}", "timeouts.chatt", "did you mean chat?"),
    (channel("maxConcurrency: 5"), "channels[0].maxConcurrency", "max_concurrency?"),
    (channel("health: {failure: 5}"), "channels[0].health.failure", "failures?"),
    (channel("cooldown: 5"), "channels[0].cooldown", "cooldown belongs under health"),
    (model("input: 5"), "models[0].input", "input belongs under price"),
    (model(price="{input: 1, output: 1, inputs: 1}"), "models[0].price.inputs", "input?"),
    (model().replace("[a]", "[{id: a, As: b}]"), "models[0].channels[0].As", "did you mean as?"),
    ("zzz: 1", "zzz", ""),
    ('"a b\\n": 1', '["a b\\n"]', ""),
    ('"": 1', '[""]', ""),
)
def test_unknown_key_is_a_fault_with_a_suggestion(text: str, path: str, hint: str) -> None:
    fault = fault_of(text)
    assert fault.path == path
    assert fault.found.startswith("the unknown key ")
    assert fault.allowed.startswith("the keys ")
    assert hint in fault.hint
    assert bool(fault.hint) is bool(hint)


def test_required_keys_that_are_absent_are_faults() -> None:
    assert places_of("channels:\n  - {}\nmodels:\n  - display_name: x") == [
        (2, "channels[0].api_key"),
        (2, "channels[0].base_url"),
        (2, "channels[0].id"),
        (2, "channels[0].protocols"),
        (4, "models[0].id"),
    ]
    assert "required" in faults_of("models: [{}]")[0].allowed


def test_certificate_and_key_go_together() -> None:
    folder = SOURCE.parent
    read_back = read("tls: {certificate: a.pem, key: /srv/b.pem}").tls
    assert read_back == Certificate(folder / "a.pem", Path("/srv/b.pem"))
    fault = fault_of("tls:\n  certificate: a.pem\n")
    assert (fault.path, fault.allowed) == ("tls.key", "a file, where there is a certificate")
    fault = fault_of("tls: {key: b.pem, certificate: ''}")
    assert (fault.line, fault.path) == (1, "tls.certificate")


@cases("log", None, 3, 4)
def test_entries_are_kept_longer_than_the_log(log: int | None) -> None:
    text = f"retention_months: {'null' if log is None else log}\nledger_retention_months: "
    config = read("retention_months: 3\nledger_retention_months: 4\n")
    assert config.ledger_retention_months == 4
    assert read(text + "null\n").ledger_retention_months is None
    fault = fault_of(text + "3\n")
    assert (fault.line, fault.path) == (2, "ledger_retention_months")


def test_two_channels_with_one_id_are_a_fault() -> None:
    other = channel().removeprefix("channels:\n")
    faults = faults_of(channel() + other + other)
    assert [(fault.line, fault.path) for fault in faults] == [
        (6, "channels[1].id"),
        (10, "channels[2].id"),
    ]
    assert faults[1].found == '"a", which is channels[0] already'


def test_alias_that_clashes_is_a_fault_wherever_it_stands() -> None:
    text = """\
        models:
          - {id: m, aliases: [n, m, x]}
          - {id: n, aliases: [x, y, y]}
        """
    faults = faults_of(text)
    assert [(fault.path, fault.found) for fault in faults] == [
        ("models[0].aliases[0]", '"n", which is models[1].id already'),
        ("models[0].aliases[1]", '"m", which is models[0].id already'),
        ("models[1].aliases[0]", '"x", which is models[0].aliases[2] already'),
        ("models[1].aliases[2]", '"y", which is models[1].aliases[1] already'),
    ]
    assert {fault.line for fault in faults} == {2, 3}


def test_channels_that_could_not_be_read_are_not_called_unknown() -> None:
    assert places_of("channels: 5\nmodels: [{id: m, callable: no, channels: [a]}]") == [
        (1, "channels")
    ]
    text = model().replace("- id: a", "- id: 5")
    assert places_of(text) == [(2, "channels[0].id")]


def test_channel_with_another_fault_is_still_known() -> None:
    assert places_of(model().replace("[chat]", "[char]")) == [(5, "channels[0].protocols[0]")]


def test_two_listeners_on_one_address_are_a_fault() -> None:
    fault = fault_of("admin_listen: localhost:80\nlisten: localhost:80\n")
    assert (fault.line, fault.path) == (1, "admin_listen")
    fault = fault_of("listen: 127.0.0.1:9090\n")
    assert fault.path == "admin_listen"
    fault = fault_of("admin_listen: localhost:80\nconsole_listen: localhost:80\n")
    assert fault.path == "console_listen"
    read("listen: localhost:0\nadmin_listen: localhost:0\nconsole_listen: localhost:0\n")
    assert read('console_listen: ""\n').console_listen is None


def test_chat_model_that_can_be_called_needs_both_prices() -> None:
    assert places_of(model(price="{input: 1}")) == [(9, "models[0].price.output")]
    assert places_of(model(price="{output: 1}")) == [(9, "models[0].price.input")]
    assert places_of(model(price="{cached_input: 1}")) == [
        (9, "models[0].price.input"),
        (9, "models[0].price.output"),
    ]
    assert places_of(channel() + "models:\n  - {id: m, channels: [a]}\n") == [
        (7, "models[0].price.input"),
        (7, "models[0].price.output"),
    ]


def test_price_that_was_refused_is_not_called_missing_too() -> None:
    assert places_of(model(price="{input: -1, output: 1}")) == [(9, "models[0].price.input")]
    assert places_of(model(price="5")) == [(9, "models[0].price")]


@cases("text", "callable: false", "channels: []")
def test_model_that_reaches_no_upstream_needs_no_price(text: str) -> None:
    entry = f"models: [{{id: m, {text}}}]"
    assert read(channel() + entry).registry.models["m"].price.input is None


@each("endpoint_type", ENDPOINT_TYPES)
def test_media_model_needs_the_price_of_its_unit(endpoint_type: str) -> None:
    entry = f"endpoint_type: {endpoint_type}"
    units = ENDPOINT_TYPES[endpoint_type].prices
    for unit in units:
        read(model(entry, price=f"{{{unit}: 0.5}}"))
    if not units:  # free
        assert read(model(entry, price="{output: 1}")).registry.models
        return
    fault = fault_of(model(entry, price="{output: 1}"))
    assert (fault.line, fault.path) == (9, "models[0].price")
    assert fault.allowed == f"{' or '.join(units)} for {endpoint_type}"


def test_price_of_large_images_and_its_threshold_belong_together() -> None:
    entry = "endpoint_type: images_generations"
    read(model(entry, price="{per_image: 1, per_image_large: 2, area_threshold_mp: 2.36}"))
    fault = fault_of(model(entry, price="{per_image: 1, per_image_large: 2}"))
    assert (fault.line, fault.path) == (9, "models[0].price.area_threshold_mp")
    fault = fault_of(model(entry, price="{per_image: 1, area_threshold_mp: 2}"))
    assert fault.path == "models[0].price.per_image_large"


def test_price_by_a_unit_that_the_endpoint_is_not_billed_by_is_a_fault() -> None:
    fault = fault_of(model(price="{input: 1, output: 1, per_image: 1}"))
    assert (fault.line, fault.path) == (9, "models[0].price.per_image")
    assert fault.found == "per_image, which a chat model is not billed by"
    assert fault.hint == "a model billed so says endpoint_type: images_generations"
    entry = "endpoint_type: images_generations"
    fault = fault_of(model(entry, price="{per_image: 1, per_second: 2}"))
    assert fault.path == "models[0].price.per_second"
    assert "per_image, per_image_large, area_threshold_mp, per_reference" in fault.allowed
    read(model(entry, price="{per_image: 1, per_reference: 0.1, input: 5}"))
    fault = fault_of(model("endpoint_type: moderations", price="{per_image: 1}"))
    assert fault.found == "per_image, which moderations is not billed by"
    assert fault.allowed == "no price, as it is free"


def test_model_of_agents_is_one_for_chat_that_can_be_called() -> None:
    models = """\
channels:
  - {id: a, base_url: "https://a.example", api_key: k, protocols: [chat]}
models:
  - {id: m, channels: [a], price: {input: 1, output: 1}, aliases: [latest]}
  - {id: soon, callable: false}
  - {id: p, endpoint_type: images_generations}
"""
    for name in ("m", "latest", '""'):
        assert read(f"agents: {{default_model: {name}}}\n{models}")
    for name in ("soon", "p", "late"):
        fault = fault_of(f"agents: {{default_model: {name}}}\n{models}")
        assert (fault.line, fault.path) == (1, "agents.default_model")
        assert fault.allowed == "a chat model that can be called"
