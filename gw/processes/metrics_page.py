"""Merges the metrics of several processes: every series gets the label `process`.

Nothing is aggregated: each metric needs another function, which the query chooses (`sum without
(process) (…)`, `max without (process) (…)`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# The end of a page of OpenMetrics.
END = "# EOF"
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{)?")


def merged(pages: Iterable[tuple[str, str]]) -> str:
    """Join pages of the text format 0.0.4, or of OpenMetrics, given as (process, page).

    Exemplars stay with their samples. The caller adds the end of an OpenMetrics page.
    """
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for process, page in pages:
        family = ""
        is_known = False
        for line in page.split("\n"):  # a label's value may contain any other line separator
            if line.startswith(("# HELP ", "# TYPE ", "# UNIT ")):
                name = line.split(" ", 3)[2]
                if name != family:
                    family, is_known = name, name in heads
                if not is_known:
                    heads.setdefault(name, []).append(line)
            elif line and not line.startswith("#"):
                samples.setdefault(family, []).append(labelled(line, process))
    lines: list[str] = []
    for name, head in heads.items():
        lines += head
        lines += samples.get(name, ())
    return "\n".join([*lines, ""])


def labelled(sample: str, process: str) -> str:
    """Return one sample with the label `process`, which is the first one."""
    found = _SAMPLE.match(sample)
    assert found is not None, sample
    label = f'process="{process}"'
    rest = sample[found.end() :]
    if found[2] is None:
        return f"{found[1]}{{{label}}}{rest}"
    return f"{found[1]}{{{label}{'' if rest.startswith('}') else ','}{rest}"
