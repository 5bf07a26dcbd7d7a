"""A live node of an account's budgets as calls are matched with it, and all of an account's.

`matching.py` keeps them. Sums and limits are the ledger's alone (reference 11.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from actors.wallet.messages import CallFacts


class Node(Struct, frozen=True, gc=False):
    """A live node. `subject` is empty where its scope has none.

    `starts`: monotonic seconds; at the latest then it has started, by the database's clock.
    """

    id: str
    scope: str
    subject: str
    period: str
    name: str
    refuses: bool  # else it warns
    starts: float = 0.0


class Spender(Struct, frozen=True, kw_only=True, gc=False):
    """Whom a call's spending counts for, besides what its facts have.

    `ceiling_nano_usd` is the most that the call names for its run. `budgets_version` is what its
    key's row has of the account.
    """

    budgets_version: int = 0
    user: str
    agent_id: str | None = None
    ceiling_nano_usd: int | None = None


# A node that a call matches, and the value that its sum is of: empty but for nodes of each value.
Matched = tuple[Node, str]
_Places = dict[str, tuple[Node, ...]]


class Nodes:
    """The live nodes of an account, found by what a call has, whatever their number.

    `version` is the account's, which every change of a node raises.
    """

    __slots__ = (
        "_agents",
        "_end_users",
        "_every",
        "_labels",
        "_models",
        "_of_all",
        "_runs",
        "_users",
        "size",
        "version",
    )

    def __init__(self, version: int, nodes: Iterable[Node] = ()) -> None:
        self.version = version
        self.size = 1  # of a cache
        places: dict[str, _Places] = {}
        for node in nodes:
            self.size += 1
            of_scope = places.setdefault(node.scope, {})
            of_scope[node.subject] = (*of_scope.get(node.subject, ()), node)
        self._of_all: Sequence[Matched] = [
            (node, "") for node in places.pop("account", {}).get("", ())
        ]
        self._agents = places.pop("agent", {})
        self._models = places.pop("model", {})
        self._labels = places.pop("label", {})
        self._users = places.pop("user", {})
        self._end_users = places.pop("end_user", {})
        self._runs = places.pop("run", {})
        self._every = {scope: found[""] for scope, found in places.items()}

    def __repr__(self) -> str:
        return f"<Nodes {self.size - 1} version={self.version}>"

    def __iter__(self) -> Iterator[Node]:
        every = [{"": nodes} for nodes in self._every.values()]
        yield from (node for node, _ in self._of_all)
        for places in (
            *(self._agents, self._models, self._labels, self._users),
            *(self._end_users, self._runs),
            *every,
        ):
            for nodes in places.values():
                yield from nodes

    def of_models(self, names: Iterable[str]) -> list[Node]:
        """Return the nodes of these models."""
        return [node for name in names for node in self._models.get(name, ())]

    def match(self, facts: CallFacts, spender: Spender, now: float) -> list[Matched]:
        """Return what a call matches at this moment (monotonic seconds)."""
        matched = list(self._of_all)
        if self._models and (found := self._models.get(facts.model)):
            matched += [(node, "") for node in found]
        if self._agents and spender.agent_id and (found := self._agents.get(spender.agent_id)):
            matched += [(node, "") for node in found]
        every = self._every
        if self._users or "every_user" in every:
            _match_specific(matched, self._users, every.get("every_user", ()), spender.user, now)
        said = facts.attribution
        if said is None:
            return matched
        if said.end_user and (self._end_users or "every_end_user" in every):
            general = every.get("every_end_user", ())
            _match_specific(matched, self._end_users, general, said.end_user, now)
        if said.run and (self._runs or "every_run" in every):
            _match_specific(matched, self._runs, every.get("every_run", ()), said.run, now)
        if self._labels:
            for key, value in said.labels.items():
                if found := self._labels.get(f"{key}={value}"):
                    matched += [(node, "") for node in found]
        return matched


NO_NODES = Nodes(0)


def _match_specific(
    matched: list[Matched], specific: _Places, general: Sequence[Node], value: str, now: float
) -> None:
    """Add the nodes of a value, and those of each value whose period none of these has.

    One that may not have started takes no other's place; the ledger counts for neither before it
    has (`Node.starts`).
    """
    own = specific.get(value, ())
    matched += [(node, "") for node in own]
    if general:
        replaced = [node.period for node in own if node.starts <= now]
        matched += [(node, value) for node in general if node.period not in replaced]
