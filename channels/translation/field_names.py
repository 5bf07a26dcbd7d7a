"""How the client's protocol spells what the canonical model holds: for naming what was dropped.

Each dialect that clients speak has its own words (`channels/dialects/<dialect>/origin.py`). Members
that the model does not hold are named as they came, in `unsupported.py`.
"""

from __future__ import annotations

from channels.translation.model import ClientProtocol, Media


def spelled_media(origin: ClientProtocol, media: Media) -> str:
    """The client's word for a medium; one protocol has another for what comes by its address."""
    if media.url is not None and (name := origin.names.get("media.url")) is not None:
        return name
    return spelled(origin, media.kind)


def spelled(origin: ClientProtocol, field: str) -> str:
    """The client's word for a canonical field; the field's own name where they are the same."""
    return origin.names.get(field, field)
