"""Submissions with idempotency keys, for acceptance tests: deployments that sell pictures, clients
that ask for them, and keys that grow old at once.
"""

from typing import Any

from loadtests.rig.client import Call, Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response
from loadtests.rig.transactions import transaction

PATH = "/v1/images/generations"
PRICE = 40_000_000  # nano-USD of one picture
BODY = {"model": "picture", "prompt": "a boat", "n": 1}
# Answers with addresses fit into one kB, ten pictures in base64 do not.
SETTINGS: dict[str, Any] = {
    "channels": [channel("one", protocols=["images", "chat"])],
    "models": [
        model("sim-model", "one"),
        model(
            "picture",
            "one",
            endpoint_type="images_generations",
            price={"per_image": "0.04"},
            max_output_tokens=None,
        ),
    ],
    "idempotency_max_kb": 1,
}


def begin(client: Client, key: str | None, **members: Any) -> Call:
    """Send a submission; its answer waits to be read."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.begin("POST", PATH, {**BODY, **members}, headers=headers)


def submit(client: Client, key: str | None, **members: Any) -> Response:
    """Send a submission and read its whole answer."""
    return begin(client, key, **members).response()


def conflict(name: str) -> tuple[int, str, str, str | None]:
    """What `refusal` is for a key that is not free."""
    return 409, "invalid_request_error", f"idempotency_{name}", "Idempotency-Key"


def age_keys(h: Deployment, *, state: str | None = None, **interval: int) -> None:
    """Let so much time pass for the idempotency keys (of a state): `age_keys(h, mins=10)`."""
    ((unit, amount),) = interval.items()
    with transaction(h.settings["database_url"]) as cursor:
        cursor.execute(
            f"UPDATE idempotency SET expires_at = expires_at - make_interval({unit} => %s)"
            " WHERE %s IS NULL OR state = %s",
            (amount, state, state),
        )
