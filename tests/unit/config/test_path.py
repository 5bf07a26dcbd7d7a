"""How the file of a configuration is found."""

from pathlib import Path

import pytest

from gw.config.faults import ConfigFaults, Fault
from gw.config.path import find_path


def fault_of_find(path_argument: str | None, environ: dict[str, str], cwd: Path) -> Fault:
    with pytest.raises(ConfigFaults) as caught:
        find_path(path_argument, environ, cwd)
    (fault,) = caught.value.faults
    return fault


def test_argument_goes_before_the_variable_and_the_folder(tmp_path: Path) -> None:
    for name in ("argument.yaml", "variable.yaml", "gw.yaml"):
        (tmp_path / name).touch()
    environ = {"GW_CONFIG": "variable.yaml"}
    assert find_path("argument.yaml", environ, tmp_path) == tmp_path / "argument.yaml"
    assert find_path(None, environ, tmp_path) == tmp_path / "variable.yaml"
    assert find_path(None, {}, tmp_path) == tmp_path / "gw.yaml"
    assert find_path("", {"GW_CONFIG": ""}, tmp_path) == tmp_path / "gw.yaml"


def test_absolute_path_stands_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.yaml"
    path.touch()
    assert find_path(str(path), {}, Path("/")) == path


def test_absent_file_says_who_named_it(tmp_path: Path) -> None:
    (tmp_path / "gw.yaml").touch()
    fault = fault_of_find("none.yaml", {}, tmp_path)
    assert fault.file == str(tmp_path / "none.yaml")
    assert fault.found == "no such file or directory, named by --config"
    fault = fault_of_find(None, {"GW_CONFIG": "none.yaml"}, tmp_path)
    assert fault.found == "no such file or directory, named by $GW_CONFIG"


def test_absent_default_says_how_to_name_one(tmp_path: Path) -> None:
    fault = fault_of_find(None, {}, tmp_path)
    assert fault.file == str(tmp_path / "gw.yaml")
    assert fault.found == "no such file or directory"
    assert "--config" in fault.hint
    assert "GW_CONFIG" in fault.hint


def test_path_that_no_file_can_have_is_a_fault(tmp_path: Path) -> None:
    assert "null" in fault_of_find("a\0b", {}, tmp_path).found
