"""The channel of a LiteLLM deployment: address, key, headers."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from channels.kinds import KINDS
from gw.config.faults import Location
from gw.config.nodes import Table
from gw.moving_in.litellm.names import KIND_CREDENTIALS, KIND_SETTINGS
from gw.moving_in.litellm.nodes import number_of, scalar_of, value_of
from gw.moving_in.plan import (
    Plan,
    PlannedChannel,
    SecretText,
    Value,
    Variable,
    is_address,
    is_key,
    proved,
    without_version,
)

_HEADER = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)


class ChannelReader:
    """Builds the channels of deployments; what is not carried over is reported in the plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def read(
        self, kind: str, provider: str, params: Table, at: Location, label: str
    ) -> PlannedChannel | None:
        """Return the channel of a deployment; None if the gateway cannot reach it."""
        key = value_of(params, "api_key")
        if isinstance(key, SecretText) and not is_key(key.value):
            at.key("api_key", params.entries["api_key"].mark).blame(
                found="text (not shown)", allowed="a key: ASCII without spaces"
            )
            return None
        found = self._address(kind, params, at)
        if found is None:
            return None
        if key is None and kind and KINDS[kind].variables and not proved(kind):
            key = Variable(KINDS[kind].variables[0])  # LiteLLM's default, too
        kind, address, chat_path = found
        if not address and (not kind or not KINDS[kind].base_url):
            self._plan.leave(label, "it says no api_base, and the provider has no one address")
            return None
        is_azure = kind == "azure-openai-deployments"
        version = scalar_of(params, "api_version") if is_azure else None
        channel = PlannedChannel(
            kind=kind,
            base_url=address,
            keys=(key,) if key is not None else (),
            chat_path=chat_path,
            headers=tuple(self._headers(params, label)),
            query=(("api-version", version),) if version else (),
            settings=self._settings_of(kind, params),
            credentials=self._credentials(kind, params, label),
            priority=number_of(params, "order", at) or 1,
            max_concurrency=number_of(params, "max_parallel_requests", at),
        )
        if (own := channel.foreign_variable) is not None:
            self._plan.leave(label, f"it reads {own}, a variable of this gateway")
            return None
        return channel

    def _address(self, kind: str, params: Table, at: Location) -> tuple[str, Value, str] | None:
        """Return kind, address and path of chat; an empty address is the kind's. None: a fault."""
        base = value_of(params, "api_base") or value_of(params, "base_url")
        if isinstance(base, SecretText):
            base = base.value
        if isinstance(base, Variable):
            self._plan.leave(f"the end of ${base.name}", "an address here has no /v1 at its end")
            return "" if kind == "openai" else kind, base, ""
        if not base:
            return kind, "", ""
        if not is_address(base):
            named = "api_base" if "api_base" in params.entries else "base_url"
            at.key(named, params.entries[named].mark).blame(
                found="no address",
                allowed="an address from http:// or https:// on, without $, { and }",
            )
            return None
        if kind and urlsplit(KINDS[kind].base_url).hostname == urlsplit(base).hostname:
            return kind, "", ""
        if kind in ("", "openai"):
            return "", *without_version(base)
        return kind, base.rstrip("/").removesuffix("/v1"), ""

    def _settings_of(self, kind: str, params: Table) -> tuple[tuple[str, Value], ...]:
        """Return what a kind's address depends on: as configured, else the provider's variable."""
        if kind not in KIND_SETTINGS:
            return ()
        found: dict[str, Value] = {
            name: Variable(variable) for name, variable in KINDS[kind].settings
        }
        for param, name in KIND_SETTINGS[kind].items():
            value = value_of(params, param)
            if value is not None:
                found[name] = value.value if isinstance(value, SecretText) else value
        return tuple(found.items())

    def _credentials(self, kind: str, params: Table, label: str) -> tuple[tuple[str, Value], ...]:
        found: dict[str, Value] = {}
        for param, name in KIND_CREDENTIALS.get(kind, {}).items():
            value = value_of(params, param)
            if isinstance(value, SecretText) and value.value.lstrip().startswith("{"):
                self._plan.leave(f"{param} of {label}", "name a key file: credentials: {file: …}")
            elif value is not None:
                found[name] = (
                    value.value if name == "file" and isinstance(value, SecretText) else value
                )
        return tuple(found.items())

    def _headers(self, params: Table, label: str) -> list[tuple[str, Value]]:
        entry = params.entries.get("extra_headers")
        found: list[tuple[str, Value]] = []
        if entry is not None and isinstance(entry.value, Table):
            for name in entry.value.entries:
                value = value_of(entry.value, name)
                if isinstance(value, SecretText) and not _HEADER.fullmatch(value.value):
                    value = None
                if value is None or not re.fullmatch(r"[A-Za-z0-9-]+", name):
                    self._plan.leave(f"the header {name} of {label}", "it is no text of a header")
                else:
                    found.append((name, value))
        organization = value_of(params, "organization")
        if organization is not None:
            found.append(("OpenAI-Organization", organization))
        return found
