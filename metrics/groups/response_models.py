"""Which model was requested, and which one responded by the upstream's report."""

from __future__ import annotations

from collections import Counter
from typing import Final

from metrics.families import Families
from metrics.values import OTHER

# Names of the configuration, and snapshots of an upstream, are few. An upstream that gives every
# response a name of its own must not make a series each.
PAIRS_PER_MODEL_MAX: Final = 32
NAME_CHARACTERS_MAX: Final = 100


class ResponseModels:
    """Responses by both names, in a bounded number of series for each model."""

    def __init__(self, make: Families) -> None:
        self._responses = make.counter("gw_response_models_total")
        self._pairs: Counter[str] = Counter()

    def responded(self, requested: str, model: str, named: str) -> None:
        """A call of `model`, asked for as `requested`, has a response of the model `named`."""
        series = self._responses.get((requested, model, named))
        if series is None:
            series = self._responses[self._bounded(requested, model, named)]
        series.value += 1

    def _bounded(self, requested: str, model: str, named: str) -> tuple[str, str, str]:
        """The series for two names that have none yet."""
        is_long = max(len(requested), len(named)) > NAME_CHARACTERS_MAX
        if is_long or self._pairs[model] >= PAIRS_PER_MODEL_MAX:
            return (OTHER, model, OTHER)
        self._pairs[model] += 1
        return (requested, model, named)
