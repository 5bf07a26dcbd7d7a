"""A running process reads regular files only, up to a limit, and never waits for one."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from channels.files import read_regular
from gw.config.certificate import expires_at, server_context
from gw.config.config import Certificate, Config
from gw.config.credentials import check_files
from gw.config.faults import ConfigFaults
from gw.config.load import load_text, read_text, reread_text
from gw.keys.secret_file import FILE_NAME, SecretFault, read_or_make
from tests.support.certificates import pem_files
from tests.support.rows import each

REASON = "not a regular file"


def write_too_much(path: Path) -> None:
    path.write_bytes(b"12345")


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


MAKERS: list[tuple[Callable[[Path], object], str]] = [
    (os.mkfifo, REASON),
    (lambda path: path.symlink_to("/dev/zero"), REASON),
    (Path.mkdir, "Is a directory"),
    (bind_socket, "No such device or address"),
    (write_too_much, "more than 4 bytes"),
    (lambda path: None, "No such file or directory"),
]


@each("made, reason", MAKERS)
def test_whatever_is_no_file_within_its_limit_is_an_error(
    tmp_path: Path, made: Callable[[Path], object], reason: str
) -> None:
    path = tmp_path / str(MAKERS.index((made, reason)))
    made(path)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=reason):
        read_regular(path, 4)
    assert len(os.listdir("/proc/self/fd")) == before


def test_file_of_its_limit_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 4) == b"1234"


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe that nobody writes to: opening it as usual waits for ever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def configured(message: str, folder: Path) -> Config:
    text = f"channels: [{{id: one, protocols: [chat], base_url: 'https://a.example', {message}}}]"
    return load_text(text, {}, source=folder / "gw.yaml")


GOOD = "{certificate: own.pem, key: own.pem}"


@each(
    "message",
    [
        f"api_key: k, client_certificate: {GOOD}, ca_file: pipe",
        "api_key: k, client_certificate: {certificate: pipe, key: own.pem}",
        "api_key: k, client_certificate: {certificate: own.pem, key: pipe}",
        "auth: google-service-account, credentials: {file: pipe}",
    ],
)
def test_pipe_in_place_of_a_channels_file_refuses_the_configuration(
    tmp_path: Path, pipe: Path, message: str
) -> None:
    (tmp_path / "own.pem").write_bytes(b"".join(pem_files("own.example")))
    check_files(configured(f"api_key: k, client_certificate: {GOOD}, ca_file: own.pem", tmp_path))
    with pytest.raises(ConfigFaults, match=REASON):
        check_files(configured(message, tmp_path))


@each("names", [("pipe", "own.pem"), ("own.pem", "pipe")])
def test_pipe_in_place_of_the_listeners_certificate_refuses_the_configuration(
    tmp_path: Path, pipe: Path, names: tuple[str, str]
) -> None:
    (tmp_path / "own.pem").write_bytes(b"".join(pem_files("own.example")))
    chain, key = (tmp_path / name for name in names)
    config = replace(configured("api_key: k", tmp_path), tls=Certificate(chain, key))
    with pytest.raises(ConfigFaults, match=REASON):
        server_context(config)
    assert (expires_at(config) == 0) == (chain == pipe)


def test_pipe_in_place_of_the_configuration_or_the_secret_is_refused(
    tmp_path: Path, pipe: Path
) -> None:
    with pytest.raises(ConfigFaults, match=REASON):
        reread_text(pipe)
    pipe.rename(tmp_path / FILE_NAME)
    with pytest.raises(SecretFault, match=REASON):
        read_or_make(tmp_path)


def test_start_reads_a_configuration_from_a_pipe_that_has_a_writer(pipe: Path) -> None:
    with ThreadPoolExecutor() as threads:
        written = threads.submit(pipe.write_text, "channels: []")
        assert read_text(pipe) == "channels: []"
        written.result()
