"""The channels and models that most modules share: starting a deployment takes a second or two.

A module that needs other ones, or does to them what others would feel, has a deployment of its own.
"""

from typing import Any

from loadtests.rig.deployment import channel, model

CREATED = 1_750_000_000
LADDER = ("one", "two", "three")
# More than the four plain members; the channel is in a dearer region.
DIMENSIONS: dict[str, Any] = {
    "input": "1",
    "output": "10",
    "cached_input": "0.1",
    "reasoning_output": "20",
    "per_request": "0.001",
    "above_tokens": [{"above": 100_000, "input": "2", "output": "15"}],
    "service_tiers": {"priority": {"factor": "2"}},
}
SETTINGS: dict[str, Any] = {
    "channels": [
        *(channel(name, priority=place) for place, name in enumerate(LADDER, start=1)),
        channel("newer", max_tokens_param="max_completion_tokens"),
        channel("quiet"),
    ],
    "models": [
        model("sim-model", *LADDER, aliases=["sim-latest"], created=CREATED),
        model("other-model", "one", aliases=["other-latest"]),
        model("hanging", "quiet"),
        # Not to be called here
        model("placeholder", "one", callable=False),
        model("painter", "one", endpoint_type="images_generations", price={"per_image": "0.04"}),
        # Token maxima
        model("newer", "newer"),
        model("wide", "one", max_output_tokens=100_000),
        model("open-ended", "one", max_output_tokens=None),
        # Prices
        model("promoted", "one", multiplier="0.6"),
        model("cheap", "one", multiplier="0.3"),
        model("uncached", "one", price={"input": "1", "output": "10"}),
        model("dimensions", {"id": "one", "price": {"factor": "1.1"}}, price=DIMENSIONS),
        # Half a nano-USD for a token that goes in, one and a half for one that comes out.
        model("fine", "one", price={"input": "0.0005", "output": "0.0015"}),
        model("free", "one", price={"input": "0", "output": "0"}),
        # Names
        model("m", "one", aliases=["n"]),
        model(
            "canonical",
            {"id": "one", "as": "upstream/name-7b"},
            aliases=["canonical-latest", "old-name"],
        ),
    ],
}
MODELS = [one["id"] for one in SETTINGS["models"]]
