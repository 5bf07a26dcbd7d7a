"""Numbers of any width in bits, most significant bit first, as codecs write them."""

from __future__ import annotations


class BitWriter:
    """Collects bits; `bytes()` fills the last byte up with zeros."""

    __slots__ = ("_count", "_value")

    def __init__(self) -> None:
        self._value = 0
        self._count = 0

    def put(self, value: int, width: int) -> None:
        """An unsigned number in so many bits."""
        assert 0 <= value < 1 << width
        self._value = self._value << width | value
        self._count += width

    def put_text(self, bits: str) -> None:
        """Bits as a text of zeros and ones."""
        self.put(int(bits, 2), len(bits))

    def put_ue(self, value: int) -> None:
        """An unsigned Exp-Golomb code (ITU-T H.264, 9.1)."""
        width = (value + 1).bit_length()
        self.put(value + 1, 2 * width - 1)

    def put_se(self, value: int) -> None:
        """A signed Exp-Golomb code."""
        self.put_ue(2 * value - 1 if value > 0 else -2 * value)

    @property
    def count(self) -> int:
        """How many bits there are."""
        return self._count

    def __bytes__(self) -> bytes:
        spare = -self._count % 8
        return (self._value << spare).to_bytes((self._count + spare) // 8, "big")
