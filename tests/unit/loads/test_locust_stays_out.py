"""locust is imported by its own process only: importing it replaces sockets, threads and more."""

import importlib.util
import subprocess
import sys

from tests.tidy.files import files, imports_of, module_of

LOCUSTFILE = "loadtests.locust.users"


def test_only_the_locustfile_imports_locust() -> None:
    importers = {
        module_of(path)
        for path in files("gw", "actors", "channels", "metrics", "loadtests", "tests", suffix=".py")
        if "locust" in path.read_text(encoding="utf-8")
        for module in imports_of(path)
        if module.partition(".")[0] == "locust" or module.startswith(LOCUSTFILE)
    }
    assert importers == {LOCUSTFILE}


def test_starting_a_load_test_imports_no_locust() -> None:
    code = "import sys, loadtests.locust.__main__; sys.exit('locust' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    found = importlib.util.find_spec(LOCUSTFILE)  # how it is found, without being imported
    assert found is not None
    assert "locust" not in sys.modules
