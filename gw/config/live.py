"""The configuration in force in a process."""

from __future__ import annotations

from channels.redaction import Redactor
from gw.config.config import Config
from metrics.log_redaction import hide


class LiveConfig:
    """The current configuration, with its registry and redactor; replaced whole by a reload.

    A call reads its settings once at its start; nothing changes during a call.
    """

    def __init__(self, config: Config) -> None:
        self.registry = config.registry
        self.swap(config)
        hide(lambda text: self.redactor.secrets(text))

    def __repr__(self) -> str:
        registry = self.registry
        return f"<LiveConfig {len(registry.channels)} channels {len(registry.models)} models>"

    def swap(self, config: Config) -> None:
        """Replace the configuration: its channels and models.

        The redacted texts of the previous one stay redacted, because its calls may be under way.
        """
        before, self.registry = self.registry, config.registry
        self.config = config
        channels = [*config.registry.channels.values(), *before.channels.values()]
        self.redactor = Redactor(channels)

    def redact(self, text: str) -> str:
        """Return a message without keys and hosts of the current channels."""
        return self.redactor.text(text)
