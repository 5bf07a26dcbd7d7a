"""Parses a provider's usage export into figures per model and day (UTC).

A file of any size is parsed piece by piece: one bucket or row is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from gw.price_list.exports import export
from gw.price_list.exports.forms import form_of_object, form_of_row
from gw.price_list.exports.pieces import BufferedText, csv_rows, json_pieces


def read_export(file: export.TextFile) -> export.Export:
    """Recognise an export by its first piece, and parse it. Raises NoExport."""
    text = BufferedText(file)
    start = text.peek()
    if start in ("{", "["):
        pieces = json_pieces(text)
        form_of: Callable[[export.Piece], tuple[str, export.PieceReader]] = form_of_object
    else:
        pieces = csv_rows(text)
        form_of = form_of_row
    first = next(pieces, None)
    if first is None:
        raise export.NoExport("it is empty")
    provider, reader = form_of(first)
    return export.Export(provider, _entries(provider, reader, form_of, chain([first], pieces)))


def _entries(
    provider: str,
    reader: export.PieceReader,
    form_of: Callable[[export.Piece], tuple[str, export.PieceReader]],
    pieces: Iterator[export.Piece],
) -> Iterator[export.ExportEntry]:
    for number, piece in enumerate(pieces, start=1):
        try:
            if form_of(piece) != (provider, reader):
                raise export.NoExport("it is of another form than the first one")
            yield from reader(piece)
        except (
            export.NoExport,
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
        ) as error:
            what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise export.NoExport(f"bucket or row {number}: {what}") from error
