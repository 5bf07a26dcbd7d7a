"""Templates of smart edit"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.files import File
from loadtests.simulator.tasks.call import DAY, Call, Json
from loadtests.simulator.tasks.plain.wire import plain_wire

CLIPS = plain_wire("clips")

SCENES: Final = ("virtualman", "realMan", "oralMixCutting", "newsMixCutting")
STYLES: Final = (("Plain", True, True), ("Bold", True, False), ("Quiet", False, False))
CANVAS: Final = {"width": 1080, "height": 1920, "ratio": "9:16"}


def templates(scene: str) -> list[Json]:
    """A scene's templates, without their covers."""
    return [
        {"id": f"{scene.lower()}-{title.lower()}", "title": title, "scene": scene}
        | {"has_title": has_title, "has_persona": has_persona}
        for title, has_title, has_persona in STYLES
    ]


def find_template(template_id: str) -> Json | None:
    found = (item for scene in SCENES for item in templates(scene) if item["id"] == template_id)
    return next(found, None)


@CLIPS.serves("catalog", "GET /v1/videos/clip-templates")
def list_templates(call: Call) -> Json:
    scene = call.exchange.parameters().get("scene", "")
    if scene and scene not in SCENES:
        raise Refusal(400, f"Invalid 'scene': expected one of {', '.join(SCENES)}.")
    found = [item for one in SCENES if scene in ("", one) for item in templates(one)]
    return {"templates": [{**item, "cover": cover(call, item["id"])} for item in found]}


@CLIPS.serves("catalog", "GET /v1/videos/clip-templates/*")
def show_template(call: Call) -> Json:
    item = find_template(call.path[0])
    if item is None:
        raise Refusal(404, f"No template {call.path[0]!r}.")
    layers = [{"id": "video", "type": "video", "name": "Video", "editable": False}]
    if item["has_title"]:
        layers.append({"id": "header", "type": "text", "name": "Title", "editable": True})
    if item["has_persona"]:
        layers.append({"id": "ip", "type": "text", "name": "Persona", "editable": True})
    return {**item, "cover": cover(call, item["id"]), "canvas": CANVAS, "layers": layers}


def cover(call: Call, name: str) -> str:
    """A link to the picture of a template."""
    return call.files.link(call.base, File("png"), name, call.now + DAY)
