"""What tests of budgets share: nodes by the command line, and what became of them."""

from typing import Any

from loadtests.rig.client import nano_usd
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant

HEADER, WARNING = "x-gateway-budget", "x-gateway-budget-warning"


def make(h: Deployment, tenant: Tenant, **options: str) -> dict[str, Any]:
    """A budget of an account: of all its calls, five USD in all, unless told otherwise."""
    named = {"name": "all", "scope": "account", "limit_usd": "5", "period": "total", **options}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]
    made: dict[str, Any] = h.gw("budget", "create", "--account", tenant.account, *words)
    return made


def current(h: Deployment, budget_id: str, *words: str) -> dict[str, int | None]:
    """The amounts of a budget in nano-USD."""
    shown = h.gw("budget", "show", budget_id, *words)["current"]
    return {
        name.removesuffix("_usd"): nano_usd(value)
        for name, value in shown.items()
        if name.endswith("_usd")
    }


def facts(header: str) -> dict[str, str]:
    """The parts of the refusal's header, the id by that name."""
    budget_id, *rest = header.split("; ")
    return {"id": budget_id, **dict(part.split("=", 1) for part in rest)}
