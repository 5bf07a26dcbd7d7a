"""Every example of the reference does in the demo what the reference says of it."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import requests
from jsonschema import Draft202012Validator

from loadtests.rig.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.long

# What an example names only for its form: tasks that nobody made, parts of signed links; and what
# is refused to everybody, or is no HTTP.
OF_NOBODY = {
    "get_video": 404,
    "get_avatar": 404,
    "delete_avatar": 404,
    "get_song": 404,
    "get_recording": 404,
    "get_source": 404,
    "get_video_content": 403,
    "get_media_file": 403,
    "get_source_file": 403,
    "create_embedding": 404,
    "open_responses_socket": 405,
}


class Reference:
    """The document that the demo serves."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.document: dict[str, Any] = requests.get(
            f"{url}/openapi.json", timeout=PATIENCE_SECONDS
        ).json()

    def found(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a reference refers to, or the value."""
        while isinstance(value.get("$ref"), str):
            inner: Any = self.document
            for name in value["$ref"].removeprefix("#/").split("/"):
                inner = inner[name]
            value = inner
        return value

    def calls(self) -> Iterator[tuple[Mapping[str, Any], str, str, Any]]:
        """Operation, method, address and body of each example."""
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                content = operation.get("requestBody", {}).get("content", {})
                examples = content.get("application/json", {}).get("examples", {})
                if "multipart/form-data" in content:
                    continue
                for body in [one["value"] for one in examples.values()] or [None]:
                    yield operation, method.upper(), self.address(path, operation), body

    def address(self, path: str, operation: Mapping[str, Any]) -> str:
        """The address with the examples of its parameters."""
        query = {}
        for parameter in map(self.found, operation["parameters"]):
            value = parameter.get("example")
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", quote(str(value)))
            elif parameter["in"] == "query" and value is not None:
                query[parameter["name"]] = ",".join(value) if isinstance(value, list) else value
        return self.url + path + (f"?{urlencode(query)}" if query else "")

    def faults(self, operation: Mapping[str, Any], response: requests.Response) -> list[str]:
        """What a response has otherwise than it is described."""
        by_status = operation["responses"]
        status = str(response.status_code)
        described = by_status.get(status) or by_status.get(f"{status[0]}XX")
        if described is None:
            return [f"the status {status}"]
        described = self.found(described)
        known = {name.lower() for name in described["headers"]}
        faults = [
            f"the header {name}"
            for name in response.headers
            if name.lower().startswith("x-") and name.lower() not in {*known, *UNSAID}
        ]
        contents = described.get("content", {})
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        forms = [one for one in contents if re.fullmatch(one.replace("*", r"[\w.+-]+"), kind)]
        if contents and response.content and not forms:
            return [*faults, f"the type {kind}"]
        if kind != "application/json" or not forms:
            return faults
        schema = {**contents[forms[0]]["schema"], "components": closed(self.components)}
        validator = Draft202012Validator(schema)
        return faults + [
            f"{list(one.absolute_path)}: {one.message[:200]}"
            for one in validator.iter_errors(response.json())
        ]

    @property
    def components(self) -> Mapping[str, Any]:
        components: Mapping[str, Any] = self.document["components"]
        return components


# Headers of every server.
UNSAID = {"x-accel-buffering", "x-content-type-options"}


def closed(value: Any) -> Any:
    """Schemas that allow no member but those that they list, unless they say so."""
    if isinstance(value, dict):
        found = {name: closed(one) for name, one in value.items()}
        if found.get("type") == "object" and "properties" in found:
            found.setdefault("additionalProperties", False)
        return found
    return [closed(one) for one in value] if isinstance(value, list) else value


@contextmanager
def demo(folder: Path) -> Iterator[tuple[str, str]]:
    """The address of a running demo, and its key."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gw", "demo", "--config", str(folder / "gw.yaml")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        text = ""
        while " ledger verify" not in text:
            line = process.stdout.readline()
            assert line, text
            text += line
        (url,) = re.findall(r"gateway is running at (\S+) ", text)
        (key,) = re.findall(r"^Key +(\S+)", text, re.MULTILINE)
        yield url, key
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_every_example_does_what_the_reference_says(data_dir: Path) -> None:
    faults, done = [], set()
    with demo(data_dir / "demo") as (url, key):
        reference = Reference(url)
        for operation, method, address, body in reference.calls():
            response = requests.request(
                method,
                address,
                headers={
                    "Authorization": f"Bearer {key}",
                    **({} if body is None else {"Content-Type": "application/json"}),
                },
                data=None if body is None else json.dumps(body),
                timeout=PATIENCE_SECONDS,
                allow_redirects=False,
            )
            name = re.sub(r"(_head|_2)+$", "", operation["operationId"])
            done.add(name)
            expected = OF_NOBODY.get(name, 200)
            if response.status_code != expected:
                faults.append(f"{method} {address}: {response.status_code} {response.text[:200]}")
            for fault in reference.faults(operation, response):
                faults.append(f"{method} {address}: {fault}")
    assert not faults, "\n".join(faults)
    assert OF_NOBODY.keys() <= done
