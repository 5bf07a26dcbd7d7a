"""The gateway's secret, from which everything that it seals, signs or hashes has its key.

Each use has its own subkey (HKDF), so that a leaked subkey reveals nothing about the others.
During a rotation the previous secret still opens and verifies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gw.keys.secret_file import read_or_make

SUBKEY_BYTES = 32


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

    Raises SecretFault (running.md: Changing the secret).
    """
    return Secret(configured or read_or_make(data_dir), previous)
