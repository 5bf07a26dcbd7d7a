"""The gateway's secret, and the sealing of keys with it; their lookup hash is `cache.py`.

Each use has a subkey of its own (HKDF), so that a leak of one reveals nothing about the other. What
a key looks like is `cache.py`. While a secret is changed the previous one still opens and checks
what was made under it.
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

# The file of a secret that was not configured: made once under the data folder, mode 0600.
#
# Any number of processes may ask at the same moment; all get the same secret.

FILE_NAME = "secret"
MODE = 0o600
RANDOM_BYTES = 32


class SecretFault(Exception):
    """The secret of the data folder cannot be read or made; the message names it and the reason."""


def read_or_make(data_dir: Path) -> str:
    """Return the secret kept in `data_dir`; make it, and the folder, when there is none.

    Raises SecretFault.
    """
    path = data_dir / FILE_NAME
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SecretFault(f"{path} cannot be read: {error.strerror}") from error
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        _make(path)
        return _read(path)
    except OSError as error:
        raise SecretFault(f"{path} cannot be made: {error.strerror}") from error


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise SecretFault(f"{path} is not text") from error
    if not text:
        raise SecretFault(f"{path} is empty: put the lost secret back, or remove the file")
    return text


def _make(path: Path) -> None:
    """Write a whole file beside it, then give it the name, which only the first one gets."""
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
            return  # another process was faster: its secret is the one
        _sync_folder(path.parent)
    finally:
        draft.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the name last: keys stored under a secret that a power cut takes are lost for good."""
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
    """What all subkeys are derived from; never printed."""

    text: str = field(repr=False)
    previous: str = field(default="", repr=False)  # empty: there was none, or it counts no more

    def subkey(self, purpose: str) -> bytes:
        """Derive the 32 bytes for one purpose (RFC 5869)."""
        return _derived(self.text, purpose)

    def subkeys(self, purpose: str) -> tuple[bytes, ...]:
        """The keys for one purpose: what is made is made under the first, all are accepted."""
        texts = (self.text, self.previous) if self.previous else (self.text,)
        return tuple(_derived(text, purpose) for text in texts)


def _derived(text: str, purpose: str) -> bytes:
    kdf = HKDF(algorithm=SHA256(), length=SUBKEY_BYTES, salt=None, info=purpose.encode())
    return kdf.derive(text.encode())


def load_secret(configured: str, data_dir: Path, *, previous: str = "") -> Secret:
    """Return the configured secret, else the one in `data_dir`, which is made when missing.

    Raises SecretFault (contract §2: `secret`).
    """
    return Secret(configured or read_or_make(data_dir), previous)


class KeySealer:
    """Encrypts keys for storage, bound to their id: one row cannot pass for another."""

    def __init__(self, secret: Secret) -> None:
        self._ciphers = [AESGCM(subkey) for subkey in secret.subkeys("gw key sealing")]

    def seal(self, key_text: str, *, key_id: str) -> bytes:
        """Encrypt a key: one byte for the method, the nonce, then the ciphertext with its tag."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._ciphers[0].encrypt(nonce, key_text.encode(), key_id.encode())
        return SEALED_WITH_AES_GCM + nonce + sealed

    def unseal(self, sealed: bytes, *, key_id: str) -> str:
        """Decrypt what `seal` made for this id, also under the previous secret.

        Raises WrongSecret.
        """
        return self.unseal_dated(sealed, key_id=key_id)[0]

    def unseal_dated(self, sealed: bytes, *, key_id: str) -> tuple[str, bool]:
        """As `unseal`; and whether it was made under the secret in force. Raises WrongSecret."""
        method, nonce, rest = sealed[:1], sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
        if method != SEALED_WITH_AES_GCM:
            raise WrongSecret
        for number, cipher in enumerate(self._ciphers):
            try:
                return cipher.decrypt(nonce, rest, key_id.encode()).decode(), number == 0
            except (InvalidTag, ValueError):
                continue  # perhaps the other one
        raise WrongSecret
