"""The settings of webhooks in the form that what sends them takes."""

from __future__ import annotations

from actors.webhooks.settings import Settings
from actors.webhooks.targets import Targets
from gw.config.config import Config


def settings_of(config: Config) -> Settings:
    """Return the settings of a configuration."""
    webhooks = config.webhooks
    return Settings(
        targets=Targets.of(webhooks.allow),
        pauses=webhooks.retry_seconds,
        seconds=webhooks.timeout,
        queue=webhooks.queue,
    )
