"""The texts of the console."""

from __future__ import annotations

from importlib.resources import files

import yaml


class Texts:
    """Every text of the console by its name, `page.name`."""

    def __init__(self, text: str) -> None:
        self._texts: dict[str, str] = {
            f"{page}.{name}": str(one)
            for page, named in yaml.safe_load(text).items()
            for name, one in named.items()
        }

    def __repr__(self) -> str:
        return f"<Texts {len(self._texts)}>"

    def __call__(self, name: str, /, **values: object) -> str:
        text = self._texts[name]
        return text.format(**values) if values else text

    def get(self, name: str, default: str) -> str:
        """Return an optional text, for values defined elsewhere."""
        return self._texts.get(name, default)


TEXTS = Texts(files("gw.console").joinpath("messages.yaml").read_text("utf-8"))
