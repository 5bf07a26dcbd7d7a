"""One provider as a port plays it: which face a path is, and its list of models."""

from __future__ import annotations

from loadtests.simulator import directives, script
from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import JSON, encode
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.faults import FaultBook
from loadtests.simulator.providers.face import FaceDialect, key_of
from loadtests.simulator.providers.model import Provider
from loadtests.simulator.script import Script


class Played:
    """A provider ready to answer."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._faces = [FaceDialect(provider, face) for face in provider.faces]

    def __repr__(self) -> str:
        return f"<Played {self._provider.name}>"

    def dialect(self, path: str) -> FaceDialect | None:
        """The face that a path is of; None for a path that the provider does not have."""
        for dialect in self._faces:
            if dialect.face.is_at(path):
                return dialect
        return None

    def listing(self, exchange: Exchange, faults: FaultBook) -> Script | None:
        """The list of models, if it is asked for; standing directives may have it fail."""
        listing = self._provider.listing
        if listing is None or exchange.method != "GET" or exchange.path != listing.path:
            return None
        exchange.protocol = "models"
        face = self._faces[0]
        try:
            exchange.api_key = key_of(exchange, listing.keys, face.face.failures)
            taken = faults.take(exchange.api_key, exchange.port)
            directive = directives.merge([fault.layer for fault in taken])
            directive = face.situated(directive, "", exchange.api_key)
        except Refusal as refusal:
            return script.refusal_script(face, refusal)
        instead = script.instead_script(face.error, directive)
        if instead is not None:
            return instead
        entries = [listing.entry(model) for model in self._provider.models]
        return script.body_script(200, directive, encode(listing.whole(entries)), JSON)
