"""The channel of a deployment in a configuration of LiteLLM's proxy: address, key, headers."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from channels.kinds import KINDS
from gw.config.faults import Location
from gw.config.nodes import Table
from gw.moving_in.litellm_values import number_of, scalar_of, value_of
from gw.moving_in.litellm_words import KIND_CREDENTIALS, KIND_SETTINGS
from gw.moving_in.plan import (
    Plan,
    PlannedChannel,
    Secret,
    Value,
    Variable,
    is_key,
    proved,
    without_version,
)

_HEADER = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)


class ChannelReader:
    """Reads the channels of deployments; what cannot come along is said in the plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def read(
        self, kind: str, provider: str, params: Table, at: Location, label: str
    ) -> PlannedChannel | None:
        """The upstream account of a deployment; None when it cannot be reached from here."""
        base = value_of(params, "api_base") or value_of(params, "base_url")
        key = value_of(params, "api_key")
        if isinstance(base, Secret):
            base = base.value
        if isinstance(key, Secret) and not is_key(key.value):
            at.key("api_key", params.entries["api_key"].mark).blame(
                found="text (not shown)", allowed="a key: ASCII without spaces"
            )
            return None
        if key is None and kind and KINDS[kind].variables and not proved(kind):
            key = Variable(KINDS[kind].variables[0])  # where LiteLLM looks for it, too
        chat_path, address = "", base or ""
        if isinstance(base, str) and base:
            parts = urlsplit(base)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                named = "api_base" if "api_base" in params.entries else "base_url"
                at.key(named, params.entries[named].mark).blame(
                    found="no address", allowed="an address from http:// or https:// on"
                )
                return None
            if kind and urlsplit(KINDS[kind].base_url).hostname == parts.hostname:
                address = ""
            elif kind in ("", "openai"):
                kind, (address, chat_path) = "", without_version(base)
            else:
                address = base.rstrip("/").removesuffix("/v1")
        elif isinstance(base, Variable):
            if kind == "openai":
                kind = ""
            self._plan.leave(f"the end of ${base.name}", "an address here has no /v1 at its end")
        if not address and (not kind or not KINDS[kind].base_url):
            self._plan.leave(label, "it says no api_base, and the provider has no one address")
            return None
        headers = self._headers(params, label)
        organization = value_of(params, "organization")
        if organization is not None:
            headers.append(("OpenAI-Organization", organization))
        version = scalar_of(params, "api_version")
        is_versioned = bool(version) and kind == "azure-openai-deployments"
        return PlannedChannel(
            kind=kind,
            base_url=address,
            keys=(key,) if key is not None else (),
            chat_path=chat_path,
            headers=tuple(headers),
            query=(("api-version", version),) if is_versioned and version else (),
            settings=self._settings_of(kind, params),
            credentials=self._credentials(kind, params, label),
            priority=number_of(params, "order", at) or 1,
            max_concurrency=number_of(params, "max_parallel_requests", at),
        )

    def _settings_of(self, kind: str, params: Table) -> tuple[tuple[str, Value], ...]:
        """What the address of a kind depends on: as it is said, or where the provider looks."""
        if kind not in KIND_SETTINGS:
            return ()
        found: dict[str, Value] = {
            name: Variable(variable) for name, variable in KINDS[kind].settings
        }
        for param, name in KIND_SETTINGS[kind].items():
            value = value_of(params, param)
            if value is not None:
                found[name] = value.value if isinstance(value, Secret) else value
        return tuple(found.items())

    def _credentials(self, kind: str, params: Table, label: str) -> tuple[tuple[str, Value], ...]:
        found: dict[str, Value] = {}
        for param, name in KIND_CREDENTIALS.get(kind, {}).items():
            value = value_of(params, param)
            if isinstance(value, Secret) and value.value.lstrip().startswith("{"):
                self._plan.leave(f"{param} of {label}", "name a key file: credentials: {file: …}")
            elif value is not None:
                found[name] = value.value if name == "file" and isinstance(value, Secret) else value
        return tuple(found.items())

    def _headers(self, params: Table, label: str) -> list[tuple[str, Value]]:
        entry = params.entries.get("extra_headers")
        found: list[tuple[str, Value]] = []
        if entry is not None and isinstance(entry.value, Table):
            for name in entry.value.entries:
                value = value_of(entry.value, name)
                if isinstance(value, Secret) and not _HEADER.fullmatch(value.value):
                    value = None
                if value is None or not re.fullmatch(r"[A-Za-z0-9-]+", name):
                    self._plan.leave(f"the header {name} of {label}", "it is no text of a header")
                else:
                    found.append((name, value))
        return found
