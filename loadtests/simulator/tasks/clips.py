"""The plain wire's templates of smart edit."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.tasks.call import DAY, Call, Json, Reply, json_reply
from loadtests.simulator.tasks.files import picture_file

SCENES: Final = ("virtualman", "realMan", "oralMixCutting", "newsMixCutting")
STYLES: Final = (("Plain", True, True), ("Bold", True, False), ("Quiet", False, False))


def templates(scene: str) -> list[Json]:
    """A scene's templates, without their covers."""
    return [
        {
            "id": f"{scene.lower()}-{title.lower()}",
            "title": title,
            "scene": scene,
            "has_title": has_title,
            "has_persona": has_persona,
        }
        for title, has_title, has_persona in STYLES
    ]


def find_template(template_id: str) -> Json | None:
    found = (item for scene in SCENES for item in templates(scene) if item["id"] == template_id)
    return next(found, None)


def listed(call: Call) -> Reply:
    """`GET /v1/videos/clip-templates`."""
    scene = call.exchange.parameters().get("scene", "")
    if scene and scene not in SCENES:
        raise Refusal(400, f"Invalid 'scene': expected one of {', '.join(SCENES)}.")
    found = [item for one in SCENES if scene in ("", one) for item in templates(one)]
    return json_reply({"templates": [{**item, "cover": _cover(call, item)} for item in found]})


def detail(call: Call) -> Reply:
    """`GET /v1/videos/clip-templates/{id}`."""
    item = find_template(call.path[0])
    if item is None:
        raise Refusal(404, f"No template {call.path[0]!r}.")
    layers = [{"id": "video", "type": "video", "name": "Video", "editable": False}]
    if item["has_title"]:
        layers.append({"id": "header", "type": "text", "name": "Title", "editable": True})
    if item["has_persona"]:
        layers.append({"id": "ip", "type": "text", "name": "Persona", "editable": True})
    canvas = {"width": 1080, "height": 1920, "ratio": "9:16"}
    shown = {**item, "cover": _cover(call, item), "canvas": canvas, "layers": layers}
    return json_reply(shown)


def _cover(call: Call, item: Json) -> str:
    seed = sum(item["id"].encode()) % 10_000
    return call.files.link(call.base, picture_file(seed), item["id"], call.now + DAY)
