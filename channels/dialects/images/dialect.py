"""The record of the images dialect: what the rest of the gateway knows of it."""

from __future__ import annotations

from channels.dialects.address import Address
from channels.dialects.dialect import Dialect
from channels.dialects.images.request import read_request, upstream_body, without_body
from channels.families import IMAGES

DIALECT = Dialect(
    family=IMAGES,
    address=Address(path="/v1/images/generations", accept="application/json"),
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    options=lambda upstream_model, channel, model: {"upstream_model": upstream_model},
)
