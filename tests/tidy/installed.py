"""Which files an installation has, as `setup.cfg` says."""

import configparser
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from tests.tidy.files import ROOT, SOURCES, files, name_of


@cache
def setup() -> Mapping[str, Mapping[str, str]]:
    """The sections of `setup.cfg`."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config


def installed_files() -> set[str]:
    """Modules and data of the packages that are installed, by their names in the project."""
    packages = setup()["options.packages.find"]["include"].split("\n")
    data = re.split(r"[,\s]+", setup()["options.package_data"]["*"])
    return {
        name_of(path)
        for package, path in _packaged()
        if any(fnmatch(package.relative_to(ROOT).as_posix().replace("/", "."), p) for p in packages)
        and (
            (path.suffix == ".py" and path.parent == package)
            or any(fnmatch(path.relative_to(package).as_posix(), one) for one in data)
        )
    }


def _packaged() -> Iterator[tuple[Path, Path]]:
    """Every file with the folder of the package that it belongs to."""
    for path in files(*SOURCES, "loadtests"):
        for folder in path.parents:
            if (folder / "__init__.py").exists():
                yield folder, path
                break


def required(*extras: str) -> set[str]:
    """The names of the distributions that an installation asks for, with these extras."""
    lines = [setup()["options"]["install_requires"]]
    lines += [setup()["options.extras_require"][extra] for extra in extras]
    return {*map(distribution, re.findall(r"^\s*([\w.-]+)", "\n".join(lines), re.MULTILINE))}


def distribution(name: str) -> str:
    """A distribution's name as all its spellings have it."""
    return re.sub(r"[-_.]+", "-", name).lower()
