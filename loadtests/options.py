"""The parameters of a function as the options of a command."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin


def options_of(
    function: Callable[..., object], arguments: Sequence[str], *, prog: str, about: str
) -> dict[str, Any]:
    """What a command line gives for each parameter; leaves with status 2 when it is wrong.

    A parameter without a default is to be given. The function's doc describes the options.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description=f"{inspect.getdoc(function)}\n\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, one in inspect.signature(function, eval_str=True).parameters.items():
        word = name.strip("_").replace("_", "-")
        kind, *_ = get_args(one.annotation) or [one.annotation]  # of several, or of one or None
        if one.default is one.empty:
            parser.add_argument(name, type=kind)
        elif kind is bool:
            parser.add_argument(f"--{word}", dest=name, action="store_true")
        else:
            nargs = "+" if get_origin(one.annotation) is Sequence else None
            shown = f"({one.default})" if one.default else None
            how = {"type": kind, "nargs": nargs, "default": one.default, "metavar": word.upper()}
            parser.add_argument(f"--{word}", dest=name, help=shown, **how)
    return vars(parser.parse_args(arguments))
