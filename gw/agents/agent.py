"""What an agent is to operators: its members, each declared once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

from gw.agents.permission import effective_model
from gw.keys.principal import OWNER
from gw.nouns import kinds
from gw.nouns.member import Member, Setting
from gw.nouns.noun import Noun


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAgent:
    """A new agent. `user`: the reader of its bases; `model`: null is the account's."""

    account_id: Annotated[
        str, Member(kinds.ID, "whose agent it is", option="account", is_noted=False)
    ]
    name: Annotated[str, Setting(kinds.LABEL, "as lists show it")]
    user: Annotated[str, Setting(kinds.USER, "whose bases it may read", column="user_name")] = OWNER
    system_prompt: Annotated[str, Setting(kinds.PROMPT, "its system prompt, in UTF-8")]
    model: Annotated[
        str | None, Setting(kinds.MODEL_ID, "which it calls", none="that of the account")
    ] = None
    temperature: Annotated[
        float | None,
        Setting(kinds.TEMPERATURE, "of sampling, 0 to 2", none="the model's", is_noted=False),
    ] = None
    web_search: Annotated[
        bool,
        Setting(kinds.FLAG, "let it search the web", none="let it search no web", is_noted=False),
    ] = False
    image_generation: Annotated[
        bool,
        Setting(kinds.FLAG, "let it make images", none="let it make no images", is_noted=False),
    ] = False
    kbs: Annotated[
        list[str],
        Setting(kinds.BASES, "may be repeated", option="kb", none="let it read no knowledge base"),
    ] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord(NewAgent):
    """An agent as shown; `effective_model` includes the default of its account."""

    id: Annotated[str, Member(kinds.ID, before="account_id")]
    enabled: Annotated[bool, Setting(kinds.FLAG, has_option=False, has_field=False)]
    created_at: Annotated[datetime, Member(kinds.INSTANT)]
    default_model: Annotated[
        str | None, Member(kinds.TEXT, column="a.default_model", is_shown=False)
    ]  # the account's
    # Disabled by an operator.
    is_locked: Annotated[
        bool, Setting(kinds.FLAG, column="locked", is_given=False, is_shown=False)
    ] = False
    platform_default: str = ""

    @property
    def effective_model(self) -> Annotated[str | None, Member(kinds.TEXT, before="temperature")]:
        """The model that it calls."""
        return effective_model(self.model, self.default_model, self.platform_default)

    def on(self, platform_default: str) -> AgentRecord:
        """Return the agent on a platform with this default of a model."""
        return replace(self, platform_default=platform_default)


AGENT_NOUN: Noun[NewAgent, AgentRecord] = Noun(
    "Agent",
    NewAgent,
    AgentRecord,
    alias="g",
    new_title="NewAgentBody",
    settings_doc="New settings of an agent; absent members stay, `kbs` is the whole list.",
)
