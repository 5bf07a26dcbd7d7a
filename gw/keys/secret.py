"""The gateway's secret and the two things it is for: the lookup hash of keys, and sealing them.

Each use has a subkey of its own (HKDF), so that a leak of one says nothing about the other. Where
a generated secret is kept is `secret_file.py`; what a key looks like is `key_text.py`. While a
secret is changed the previous one still opens and checks what was made under it (`rotation.py`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gw.keys.secret_file import read_or_make

SUBKEY_BYTES = 32
HASH_BYTES = 32
NONCE_BYTES = 12
# The first byte of a sealed key says how it was sealed.
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


class KeyHasher:
    """The keyed hash by which keys are found: of no use to a thief of the table alone."""

    def __init__(self, secret: Secret) -> None:
        self._keyed, *previous = (
            blake2b(key=subkey, digest_size=HASH_BYTES)
            for subkey in secret.subkeys("gw key lookup")
        )
        self._previous = previous[0] if previous else None

    def lookup_hash(self, key_text: str) -> bytes:
        """Return 32 bytes; any text has a hash, also one that is no key."""
        return _hashed(self._keyed, key_text)

    def previous_hash(self, key_text: str) -> bytes | None:
        """The hash under the previous secret; None when there is none."""
        return None if self._previous is None else _hashed(self._previous, key_text)


def _hashed(keyed: blake2b, key_text: str) -> bytes:
    keyed = keyed.copy()
    keyed.update(key_text.encode("utf-8", "replace"))
    return keyed.digest()


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
