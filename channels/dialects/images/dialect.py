"""The images dialect: requests, responses counted in images, and its record (reference 7.9)."""

from __future__ import annotations

from channels.dialects.address import Address
from channels.dialects.dialect import Dialect, model_option, renamed_body
from channels.dialects.images.request import read_request
from channels.families import IMAGES

DIALECT = Dialect(
    family=IMAGES,
    address=Address(path="/v1/images/generations", accept="application/json"),
    read_request=read_request,
    upstream_body=renamed_body,
    options=model_option,
)
