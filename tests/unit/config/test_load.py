"""A configuration's file: found, read, and what its defaults are."""

import errno
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from actors.media_store.specs import BucketSpec
from channels.prices import PriceSpec
from channels.registry import Binding, HealthSpec, VideoSpec
from gw.config.addresses import ListenAddress
from gw.config.config import AgentsSpec, KbStore, Tasks, Timeouts
from gw.config.faults import ConfigFaults, Fault
from gw.config.load import MAX_FILE_BYTES, load
from tests.support.rows import cases
from tests.unit.config.reading import SOURCE, channel, model, read

EXAMPLE = Path(__file__).parents[3] / "ops" / "examples" / "gw.yaml"
EXAMPLE_ENVIRON = {
    "EXAMPLE_A_KEY": "key-of-a",
    "EXAMPLE_B_KEY": "key-of-b",
    "EXAMPLE_MEDIA_KEY": "key-of-media",
    "EXAMPLE_HUMAN_KEY": "key-of-human",
}


def test_translate_switches_on_beside_what_is_on() -> None:
    usual = {"chat_to_messages", "chat_to_native"}
    assert read("translate: [responses_to_chat]").translations == {*usual, "responses_to_chat"}
    of_two = "translations: [native_to_chat]\ntranslate: [native_to_chat, native_to_responses]"
    assert read(of_two).translations == {"native_to_chat", "native_to_responses"}


def fault_of_file(path: Path) -> Fault:
    with pytest.raises(ConfigFaults) as caught:
        load(path, {})
    (fault,) = caught.value.faults
    assert fault.file == str(path)
    assert fault.path == ""
    return fault


@cases("text", "", "# nothing yet\n", "---\n", "null\n", "{}\n", "\ufeff")
def test_empty_file_is_a_configuration_of_defaults(text: str) -> None:
    config = read(text)
    assert config.listen == ListenAddress("127.0.0.1", 8080)
    assert config.admin_listen == ListenAddress("127.0.0.1", 9090)
    assert config.data_dir == SOURCE.parent / "var"
    assert config.database_url == config.redis_url == config.secret == ""
    assert config.credits_per_usd == Decimal(1000)
    assert config.drain_seconds == 30.0
    assert config.max_body_bytes == 64 * 1024 * 1024
    assert config.translations == {"chat_to_messages", "chat_to_native"}
    assert config.messages_versions == ("2023-06-01", "2026-10-21")
    assert config.idempotency_max_bytes == 1024 * 1024
    assert config.timeouts == Timeouts(
        connect=5.0,
        chat=180.0,
        image_attempt=240.0,
        image_total=280.0,
        video_submit=60.0,
        transcript=55.0,
        speech=60.0,
        voice=60.0,
        task_poll=10.0,
    )
    assert config.tasks == Tasks(
        poll_first=2.0,
        poll_factor=Decimal("1.5"),
        poll_max=15.0,
        poll_concurrency=32,
        lease=15.0,
        deadline=86_400.0,
        catalog_seconds=600.0,
    )
    assert config.kb_store == KbStore(
        kind="local",
        path=Path("kb"),
        link_seconds=3600,
        max_source_mb=64,
    )
    assert config.kb_store.bucket == BucketSpec("", "auto", "", "", "", "")
    assert config.agents == AgentsSpec(
        default_model="", kb_pages=5, kb_page_chars=4000, kb_chars=12_000
    )
    assert config.kb_folder == SOURCE.parent / "var" / "kb"
    assert config.registry.channels == {}
    assert config.registry.models == {}
    assert config.source == SOURCE


def test_channel_and_model_have_their_defaults() -> None:
    registry = read(channel() + "models: [{id: m}]").registry
    a, m = registry.channels["a"], registry.models["m"]
    assert a.tools == frozenset()
    assert a.max_tokens_param is None
    assert not a.propagate_trace  # an upstream may be anybody's
    assert a.max_concurrency == 256
    assert a.priority == 1
    assert a.health == HealthSpec(failures=5, cooldown_seconds=10.0)
    assert m.bindings == ()
    assert m.display_name == "m"
    assert m.created == 0
    assert m.context_size is None
    assert m.max_output_tokens is None
    assert m.price == PriceSpec()
    assert m.multiplier == Decimal(1)
    assert m.capabilities == frozenset()
    assert m.callable is True
    assert m.endpoint_type is None
    assert m.aliases == ()


def test_example_loads_and_shows_the_defaults() -> None:
    config = load(EXAMPLE, EXAMPLE_ENVIRON)
    defaults = read("")
    assert defaults == replace(
        config,
        data_dir=defaults.data_dir,
        drain_seconds=defaults.drain_seconds,
        registry=defaults.registry,
        source=defaults.source,
    )
    assert config.data_dir == EXAMPLE.parent / "var"
    channels, models = config.registry.channels, config.registry.models
    assert list(channels) == ["example-a", "example-b", "example-media", "example-human"]
    assert channels["example-human"].dialect_of("clips") == "shanjian"
    assert models["example-film-mini"].video == VideoSpec(tier="mini", real_person=True)
    assert config.cautions == ()
    assert channels["example-b"].api_key == "key-of-b"
    assert channels["example-media"].base_url == "https://media.upstream.example:8443"
    large = config.registry.resolve("example-large-latest")
    assert large is models["example-large"]
    assert large.bindings == (
        Binding("example-a"),
        Binding("example-b", "vendor/example-large-v2", first_event_seconds=20.0),
    )
    assert large.price == PriceSpec(
        input=Decimal("1.25"),
        output=Decimal(10),
        cached_input=Decimal("0.125"),
        per_web_search=Decimal("0.01"),
    )
    assert models["example-small"].multiplier == Decimal("0.6")
    assert models["example-soon"].callable is False
    assert models["example-picture"].endpoint_type == "images_generations"
    assert models["example-film"].price.per_second == Decimal("0.12")


def test_relative_data_dir_starts_at_the_files_folder(tmp_path: Path) -> None:
    for written, expected in (
        ("./store", tmp_path / "store"),
        ("../store", tmp_path / ".." / "store"),
        ("/srv/store", Path("/srv/store")),
    ):
        path = tmp_path / "gw.yaml"
        path.write_text(f"data_dir: {written}\n")
        assert load(path, {}).data_dir == expected


def test_file_given_by_a_relative_path_has_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gw.yaml").write_text("data_dir: store\n")
    monkeypatch.chdir(tmp_path)
    config = load(Path("gw.yaml"), {})
    assert config.source == tmp_path / "gw.yaml"
    assert config.data_dir == tmp_path / "store"


def test_repr_of_a_configuration_holds_no_secret() -> None:
    config = read(
        """
        database_url: postgresql://gw:hidden-1@db/gw
        redis_url: redis://:hidden-2@cache
        secret: hidden-3-and-longer
        channels: [{id: a, base_url: "http://a", api_key: hidden-4, protocols: [chat]}]
        """
    )
    assert config.database_url == "postgresql://gw:hidden-1@db/gw"
    assert config.redis_url == "redis://:hidden-2@cache"
    assert config.secret == "hidden-3-and-longer"
    assert config.registry.channels["a"].api_key == "hidden-4"
    assert "hidden" not in repr(config)


def test_missing_file_is_a_fault(tmp_path: Path) -> None:
    assert fault_of_file(tmp_path / "none.yaml").found == "no such file or directory"


def test_folder_in_place_of_the_file_is_a_fault(tmp_path: Path) -> None:
    assert fault_of_file(tmp_path).found == "is a directory"


def test_path_with_a_nul_is_a_fault() -> None:
    assert "null" in fault_of_file(Path("gw\0.yaml")).found


def test_file_without_permission_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:  # root may read everything, so the system cannot be asked
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)
    assert fault_of_file(tmp_path / "gw.yaml").found == "permission denied"


def test_file_that_is_not_utf8_is_a_fault_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "gw.yaml"
    path.write_bytes(b"listen: 127.0.0.1:80\nsecret: caf\xe9\n")
    fault = fault_of_file(path)
    assert (fault.line, fault.column) == (2, 12)
    assert fault.found == "the byte 0xe9"
    assert "UTF-8" in fault.allowed


def test_file_beyond_the_bound_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "gw.yaml"
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    assert str(MAX_FILE_BYTES) in fault_of_file(path).found


def test_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "gw.yaml"
    path.write_bytes(b"\xef\xbb\xbfsecret: sixteen-letters-\r\ndrain_seconds: 1\r\n")
    config = load(path, {})
    assert (config.secret, config.drain_seconds) == ("sixteen-letters-", 1.0)


@cases(
    "written, host, port, text",
    ("127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.1:8080"),
    ("0.0.0.0:0", "0.0.0.0", 0, "0.0.0.0:0"),
    ("localhost:65535", "localhost", 65535, "localhost:65535"),
    ("gateway-1.internal:80", "gateway-1.internal", 80, "gateway-1.internal:80"),
    ("'[::1]:8080'", "::1", 8080, "[::1]:8080"),
    ("'[0:0:0:0:0:0:0:1]:1'", "::1", 1, "[::1]:1"),
    ("'[::]:0'", "::", 0, "[::]:0"),
)
def test_address_is_read(written: str, host: str, port: int, text: str) -> None:
    address = read(f"listen: {written}").listen
    assert address == ListenAddress(host, port)
    assert str(address) == text


@cases(
    "written, expected",
    ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
    ("https://a.example/", "https://a.example"),
    ("HTTPS://A.example", "https://A.example"),
    ("'http://[::1]:9000'", "http://[::1]:9000"),
    ("http://upstream_1", "http://upstream_1"),
    ("https://a.example/api/v2/", "https://a.example/api/v2"),
    ("https://a.example:8443/v1/accounts/x%20y", "https://a.example:8443/v1/accounts/x%20y"),
)
def test_base_url_is_read(written: str, expected: str) -> None:
    text = channel().replace("https://a.example", written)
    assert read(text).registry.channels["a"].base_url == expected


@cases("url", "postgresql://u:p@h:5432,h2/d?x=1", "postgres://h/d", "postgresql:///d?host=/run")
def test_database_url_is_taken_as_it_is(url: str) -> None:
    assert read(f"database_url: {url}").database_url == url


@cases(
    "url",
    "redis://h:6379/0",
    "rediss://:p@h?ssl_ca_certs=/etc/ca.pem",
    "unix:///run/redis.sock?db=2&password=x",
    "redis://[::1]:6379?socket_timeout=0.2",
    "redis://user:p%23%20w@h/15",
)
def test_redis_url_is_taken_as_it_is(url: str) -> None:
    assert read(f"redis_url: {url}").redis_url == url


def test_nothing_means_empty_where_empty_is_a_value() -> None:
    config = read(
        "secret:\ndatabase_url:\nredis_url:\ntimeouts:\nchannels:\nmodels:\ntranslations:\n"
    )
    assert config.secret == config.database_url == config.redis_url == ""
    assert config.timeouts.chat == 180.0
    assert config.translations == frozenset()
    assert read(channel().replace("key\n", "''\n")).registry.channels["a"].api_key == ""


def test_sizes_become_bytes() -> None:
    config = read("max_body_mb: 0.5\nidempotency_max_kb: 0")
    assert (config.max_body_bytes, config.idempotency_max_bytes) == (524_288, 0)
    assert read("max_body_mb: 0.000000001").max_body_bytes == 1


def test_whole_numbers_may_have_underscores_and_signs() -> None:
    models = read(model("context_size: 400_000")).registry.models
    assert models["m"].context_size == 400_000
    assert read(channel("priority: -3")).registry.channels["a"].priority == -3
