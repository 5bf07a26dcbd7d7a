"""What an installation has, and that it needs nothing else."""

import sys
from importlib.metadata import packages_distributions

from tests.tidy.files import ROOT, SOURCES, files, imports_of, name_of
from tests.tidy.installed import distribution, installed_files, required

EXTRAS = ("s3", "aws", "google", "load")
TOPS = (*SOURCES, "loadtests", "tests")


def test_all_of_the_product_is_installed() -> None:
    assert {name_of(path) for path in files(*SOURCES)} <= installed_files()


def test_of_the_loads_only_what_runs_without_a_checkout_is_installed() -> None:
    loads = {name.split("/")[1] for name in installed_files() if name.startswith("loadtests/")}
    assert loads == {"__init__.py", "__main__.py", "options.py", "simulator", "locust", "rig"}


def test_what_is_installed_imports_what_is_installed() -> None:
    installed = installed_files()
    providers = packages_distributions()
    known = required(*EXTRAS)
    missing = []
    for name in sorted(one for one in installed if one.endswith(".py")):
        for module in imports_of(ROOT / name):
            top = module.partition(".")[0]
            if top in sys.stdlib_module_names:
                continue
            if top in TOPS:
                if not _is_installed(module, installed):
                    missing.append(f"{name}: {module}")
            elif not {*map(distribution, providers.get(top, ()))} & known:
                missing.append(f"{name}: {module}")
    assert not missing


def _is_installed(module: str, installed: set[str]) -> bool:
    """A module, or a name in one."""
    path = module.replace(".", "/")
    while True:
        for name in (f"{path}.py", f"{path}/__init__.py"):
            if (ROOT / name).exists():
                return name in installed
        path = path.rpartition("/")[0]
