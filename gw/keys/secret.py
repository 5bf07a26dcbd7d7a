"""The gateway's secret, and the sealing of keys with it; `cache.py` makes their lookup hashes.

Each use has its own subkey (HKDF), so that a leaked subkey reveals nothing about the others. The
format of keys is in `cache.py`. During a rotation the previous secret still opens and verifies.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from channels.files import read_regular

# The file of a generated secret: created once in the data folder, mode 0600.
#
# Any number of processes may create it at the same time; all read the same secret.

FILE_NAME = "secret"
MODE = 0o600
RANDOM_BYTES = 32


class SecretFault(Exception):
    """The secret of the data folder cannot be read or created; the message has file and reason."""


def read_or_make(data_dir: Path) -> str:
    """Return the secret kept in `data_dir`; create it, and the folder, if missing.

    Raises SecretFault.
    """
    if made := read_if_made(data_dir):
        return made
    path = data_dir / FILE_NAME
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        _make(path)
        return _read(path)
    except OSError as error:
        raise SecretFault(f"{path} cannot be made: {error.strerror}") from error


def read_if_made(data_dir: Path) -> str:
    """Return the secret kept in `data_dir`, "" before it is created. Raises SecretFault."""
    path = data_dir / FILE_NAME
    try:
        return _read(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SecretFault(f"{path} cannot be read: {error.strerror}") from error


def _read(path: Path) -> str:
    try:
        text = read_regular(path).decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise SecretFault(f"{path} is not text") from error
    if not text:
        raise SecretFault(f"{path} is empty: put the lost secret back, or remove the file")
    return text


def _make(path: Path) -> None:
    """Write a temporary file, then link it to the name, which succeeds once."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secrets.token_hex(RANDOM_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was faster: its secret is used
        _sync_folder(path.parent)
    finally:
        draft.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the name durable: keys stored under a secret lost in a power cut are lost for good."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


SUBKEY_BYTES = 32
NONCE_BYTES = 12
# The first byte of a sealed key is the version of its seal.
SEALED_WITH_AES_GCM = b"\x01"


class WrongSecret(Exception):
    """A stored key cannot be opened: it was stored under another secret than the one in force.

    Set `secret` in the configuration (or the file it was generated in) back to what it was when
    the key was made, or that as `previous_secret`.
    """

    def __init__(self) -> None:
        super().__init__(" ".join((self.__doc__ or "").split()))


@dataclass(frozen=True, slots=True)
class Secret:
    """The source of all subkeys; never printed."""

    text: str = field(repr=False)
    previous: str = field(default="", repr=False)  # empty: none is accepted

    def subkey(self, purpose: str) -> bytes:
        """Derive the 32 bytes for one purpose (RFC 5869)."""
        return _derived(self.text, purpose)

    def subkeys(self, purpose: str) -> tuple[bytes, ...]:
        """Return the keys for one purpose: the first one signs, all verify."""
        texts = (self.text, self.previous) if self.previous else (self.text,)
        return tuple(_derived(text, purpose) for text in texts)


def _derived(text: str, purpose: str) -> bytes:
    kdf = HKDF(algorithm=SHA256(), length=SUBKEY_BYTES, salt=None, info=purpose.encode())
    return kdf.derive(text.encode())


def load_secret(configured: str, data_dir: Path, *, previous: str = "") -> Secret:
    """Return the configured secret, else the one in `data_dir`, created if missing.

    Raises SecretFault (contract §2: `secret`).
    """
    return Secret(configured or read_or_make(data_dir), previous)


class KeySealer:
    """Encrypts keys for storage, bound to their id, so that rows cannot be exchanged."""

    def __init__(self, secret: Secret) -> None:
        self._ciphers = [AESGCM(subkey) for subkey in secret.subkeys("gw key sealing")]

    def seal(self, key_text: str, *, key_id: str) -> bytes:
        """Encrypt a key: one byte for the method, the nonce, then the ciphertext with its tag."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._ciphers[0].encrypt(nonce, key_text.encode(), key_id.encode())
        return SEALED_WITH_AES_GCM + nonce + sealed

    def unseal(self, sealed: bytes, *, key_id: str) -> str:
        """Decrypt the result of `seal` for this id, also with the previous secret.

        Raises WrongSecret.
        """
        return self.unseal_dated(sealed, key_id=key_id)[0]

    def unseal_dated(self, sealed: bytes, *, key_id: str) -> tuple[str, bool]:
        """Like `unseal`; also return whether the current secret sealed it. Raises WrongSecret."""
        method, nonce, rest = sealed[:1], sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
        if method != SEALED_WITH_AES_GCM:
            raise WrongSecret
        for number, cipher in enumerate(self._ciphers):
            try:
                return cipher.decrypt(nonce, rest, key_id.encode()).decode(), number == 0
            except (InvalidTag, ValueError):
                continue  # try the next one
        raise WrongSecret
