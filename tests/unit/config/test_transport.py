"""How channels are reached: proxies and certificates."""

from dataclasses import replace
from pathlib import Path

import pytest

from channels.http.transport import Proxy, Transport
from gw.config.config import Config
from gw.config.faults import ConfigFaults
from gw.config.transport import check_client_certificates
from tests.support.certificates import pem_files
from tests.support.rows import cases, each
from tests.unit.config.reading import SOURCE, channel, check_fault, fault_of, read

PROXY = Proxy("proxy.example", 3128, "u:p")
URL = "http://u:p@proxy.example:3128"


def transport_of(extra: str, **environ: str) -> Transport | None:
    return read(channel(extra), **environ).registry.channels["a"].transport


def test_usual_way_is_none() -> None:
    assert transport_of("") is None
    assert transport_of("proxy: ''\nca_file: ''\nclient_certificate:") is None


def test_proxy_of_the_file() -> None:
    assert transport_of("proxy: ${P}", P=URL) == Transport(PROXY)


@cases("name", "HTTPS_PROXY", "https_proxy")
def test_proxy_of_the_environment(name: str) -> None:
    assert transport_of("", **{name: URL}) == Transport(PROXY)
    assert transport_of("proxy: ''", **{name: URL}) is None
    text = channel().replace("https://", "http://")
    assert read(text, **{name: URL}).registry.channels["a"].transport is None


@cases(
    "spared, is_spared",
    ("a.example", True), ("b.example, A.example", True), (".example", True), ("example", True),
    ("a.example:443", True), ("*", True), ("a.example:8443", False), ("b.a.example", False),
    ("ample", False), (" , ", False),
)  # fmt: skip
def test_hosts_that_the_environment_spares(spared: str, is_spared: bool) -> None:
    found = transport_of("", HTTPS_PROXY=URL, NO_PROXY=spared)
    assert found == (None if is_spared else Transport(PROXY))
    # What the file says is meant.
    assert transport_of(f"proxy: {URL}", NO_PROXY=spared) == Transport(PROXY)


def test_files_start_at_the_folder_of_the_configuration() -> None:
    folder = SOURCE.parent
    extra = "ca_file: ca.pem\nclient_certificate: {certificate: own.pem, key: /k/own.key}"
    assert transport_of(extra) == Transport(
        ca_file=str(folder / "ca.pem"), certificate=str(folder / "own.pem"), key="/k/own.key"
    )


BAD_TRANSPORTS = [
    ("proxy: socks5://u:hidden@p:1", "proxy", "(not shown)", "http://[user:password@]host:port"),
    ("proxy: [a]", "proxy", "a list", "http://[user:password@]host:port"),
    ("ca_file: ~/ca.pem", "ca_file", "~/ca.pem", "without ~"),
]


@each("case", BAD_TRANSPORTS)
def test_bad_value_is_a_fault(case: tuple[str, str, str, str]) -> None:
    extra, path, found, allowed = case
    hint = "${HOME}" if "~" in extra else ""
    check_fault(channel(extra), 6, f"channels[0].{path}", found, allowed, hint)


def test_certificate_without_its_key_is_a_fault() -> None:
    fault = fault_of(channel("client_certificate: {certificate: own.pem}"))
    assert fault.path == "channels[0].client_certificate.key"


def test_proxy_of_the_environment_that_is_none_is_a_fault_that_does_not_show_it() -> None:
    fault = fault_of(channel(), HTTPS_PROXY="socks5://u:hidden@p:1")
    assert fault.path == "channels[0].proxy"
    assert "HTTPS_PROXY" in fault.found
    assert "hidden" not in repr(fault)
    assert transport_of("proxy: ''", HTTPS_PROXY="socks5://u:hidden@p:1") is None


def config_with(ca_file: str = "", certificate: str = "", key: str = "") -> Config:
    config = read(channel())
    transport = Transport(ca_file=ca_file, certificate=certificate, key=key)
    spec = replace(config.registry.channels["a"], transport=transport)
    return replace(config, registry=type(config.registry).of([spec], []))


def test_files_of_certificates_are_checked(tmp_path: Path) -> None:
    good, bad, gone = tmp_path / "good.pem", tmp_path / "bad.pem", tmp_path / "gone.pem"
    good.write_bytes(b"".join(pem_files("localhost")))
    bad.write_text("nothing")
    check_client_certificates(config_with(ca_file=str(good), certificate=str(good), key=str(good)))
    for files in (
        {"ca_file": str(bad)},
        {"ca_file": str(gone)},
        {"certificate": str(good), "key": str(bad)},
        {"certificate": str(gone), "key": str(gone)},
    ):
        with pytest.raises(ConfigFaults) as caught:
            check_client_certificates(config_with(**files))
        (fault,) = caught.value.faults
        assert fault.path == "channels[0]"
        assert next(iter(files.values())) in fault.found
