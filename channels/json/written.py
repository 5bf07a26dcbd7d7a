"""The type of JSON objects that are made member by member, and read back while they are."""

from __future__ import annotations

from typing import Any, TypeAlias

Written: TypeAlias = dict[str, Any]
