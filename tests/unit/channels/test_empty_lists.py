"""A whole response whose list is empty is none, in every family whose requests ask for entries."""

from collections.abc import Callable, Mapping

import pytest

from channels.dialects.decisions import dialect as decisions
from channels.dialects.embeddings import dialect as embeddings
from channels.dialects.moderations import dialect as moderations
from channels.dialects.native_embeddings import dialect as native_embeddings
from channels.dialects.rerank import dialect as rerank
from channels.errors import UpstreamMalformed

READERS: Mapping[Callable[[bytes], object], tuple[str, ...]] = {
    decisions.read_response: ("answers",),
    embeddings.read_response: ("data",),
    moderations.failure_in: ("results",),
    native_embeddings.read_response: ("embeddings",),
    rerank.read_response: ("results", "data"),
}


def test_empty_list_is_no_response() -> None:
    for read, names in READERS.items():
        for name in names:
            for empty in (b"[]", b"[ ]", b"[null]", b"{}", b'"x"', b"null"):
                with pytest.raises(UpstreamMalformed):
                    read(b'{"%b": %b, "usage": {"total_tokens": 9}}' % (name.encode(), empty))
            read(b'{"%b": [\n  {"index": 0}]}' % name.encode())
