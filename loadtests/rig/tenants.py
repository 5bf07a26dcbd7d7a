"""Accounts with their keys for tests, made straight in the database: quicker than the command line.

What the command line makes of its options is tested where it is the subject.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from actors.store.database import Database
from actors.wallet.money import NANO_PER_USD
from gw import accounts
from gw.agents import table as agents
from gw.agents.agent import NewAgent
from gw.keys.hashing import KeyHasher
from gw.keys.issue import IssuedKey, issue_key
from gw.keys.key import KeyWish
from gw.keys.sealing import KeySealer
from gw.keys.secret import load_secret
from loadtests.rig.client import Client

PERSONA = 'You are "Ahoy", a harbour master.\n'
AGENT: dict[str, Any] = {
    "name": "harbour",
    "user": "owner",
    "system_prompt": PERSONA,
    "model": "sim-model",
    "temperature": None,
    "web_search": False,
    "image_generation": False,
    "kbs": [],
}


@dataclass(frozen=True)
class Tenant:
    """An account of its own, and one key of it."""

    account: str
    key_id: str
    client: Client
    agent_id: str = ""  # of a key that speaks for one

    @property
    def key(self) -> str:
        assert self.client.key is not None
        return self.client.key


@dataclass(frozen=True)
class Registrar:
    """Makes accounts and keys in one database, under one secret."""

    database_url: str
    secret: str
    gateway_url: str

    def tenant(
        self,
        *,
        nano_usd: int = NANO_PER_USD,
        rpm: int | None = None,
        concurrency: int | None = None,
        **key: Any,
    ) -> Tenant:
        """A new account with so much credit, and a key as `KeyWish` describes it."""

        async def make() -> Tenant:
            async with Database(self.database_url, size=1) as database:
                account = await accounts.create(
                    database,
                    "tests",
                    rpm_limit=rpm,
                    concurrency_limit=concurrency,
                    credit_nano_usd=nano_usd,
                )
                issued = await self._issue(database, account.id, key)
            return self._tenant(account.id, issued)

        return asyncio.run(make())

    def another(self, tenant: Tenant, **key: Any) -> Tenant:
        """Another key of the same account."""

        async def make() -> Tenant:
            async with Database(self.database_url, size=1) as database:
                return self._tenant(
                    tenant.account, await self._issue(database, tenant.account, key)
                )

        return asyncio.run(make())

    def agent(self, tenant: Tenant, **settings: Any) -> Tenant:
        """A new agent of the account, as `NewAgent` describes it, and a key that speaks for it."""

        async def make() -> str:
            async with Database(self.database_url, size=1) as database:
                agent = NewAgent(**{**AGENT, "account_id": tenant.account, **settings})
                return await agents.create(database, agent)

        agent_id = asyncio.run(make())
        key = self.another(tenant, kind="agent", agent_id=agent_id)
        return replace(key, agent_id=agent_id)

    async def _issue(self, database: Database, account_id: str, key: dict[str, Any]) -> IssuedKey:
        # The configured secret wins over any file, so the folder is never looked at.
        secret = load_secret(self.secret, Path())
        wish = KeyWish(account_id=account_id, name=key.pop("name", "tests"), **key)
        return await issue_key(database, wish, hasher=KeyHasher(secret), sealer=KeySealer(secret))

    def _tenant(self, account_id: str, issued: IssuedKey) -> Tenant:
        return Tenant(account_id, issued.id, Client(self.gateway_url, issued.text))
