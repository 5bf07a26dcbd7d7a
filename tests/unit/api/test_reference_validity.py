"""The reference of the public API is OpenAPI 3.1, as its own validator reads it."""

import json

from gw.app import description


def test_the_document_is_valid() -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # takes a second, in every worker

    found = OpenAPIV31SpecValidator(json.loads(description().body)).iter_errors()
    assert [one.message for one in found] == []
