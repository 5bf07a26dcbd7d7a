"""The sealing of keys: their texts encrypted for storage under the gateway's secret."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gw.keys.secret import Secret

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
