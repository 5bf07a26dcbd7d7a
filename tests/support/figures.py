"""The samples of one metric of a process; its whole page takes longer than most calls."""

from metrics.families import Families
from metrics.prometheus import Metrics


def samples(metrics: Metrics, name: str) -> dict[str, float]:
    """Labels and value of every sample of this name, as the page writes them."""
    found = {}
    families = metrics._registry._names_to_collectors[name]
    assert isinstance(families, Families)
    made = families._made
    for family in filter(lambda one: name.startswith(one.name), made):
        for values, one in made[family]():
            for suffix, more, value, _ in one.samples():
                if family.name + suffix == name:
                    labels = {**dict(zip(family.labels, values, strict=True)), **more}
                    found[_written(labels)] = float(value)
    return found


def _written(labels: dict[str, str]) -> str:
    inner = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{{{inner}}}" if inner else ""
