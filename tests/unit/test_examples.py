"""Examples of property tests are the same in every run, whatever has been loaded by then."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from tests.conftest import PROFILE


def examples() -> list[str]:
    seen: list[str] = []

    @settings(max_examples=300)
    @seed(1)
    @given(st.text())
    def look(text: str) -> None:
        seen.append(text)

    look()
    return seen


def test_module_that_is_loaded_changes_examples_of_the_random_profile_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = examples()
    providers.CONSTANTS_CACHE.cache.clear()
    monkeypatch.setattr(providers, "is_local_module_file", lambda _: True)
    path = tmp_path / "loaded.py"
    path.write_text(f"MARKS = {[f'mark {number}' for number in range(500)]}\n")
    loaded = ModuleType("loaded")
    loaded.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "loaded", loaded)
    assert (examples() == before) == (PROFILE != "random")
