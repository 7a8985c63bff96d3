"""The scripted agent on our own engine; tests/interop/script.py has its behaviour. Starts no server."""

from collections.abc import AsyncIterator
from typing import Any

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Agent
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.interop.script import Gates, play


class ScriptedExecutor:
    def __init__(self) -> None:
        self._gates = Gates()

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        async for event in play(hub, run.message, run.task_id, run.context_id, self._gates, _failure):
            yield event


def _failure(reason: str, text: str) -> A2AError:
    return A2AError(Reason[reason], text)


def card(**capabilities: Any) -> hub.AgentCard:
    """A card with every capability, except the named ones."""
    on = {"streaming": True, "push_notifications": True, "extended_agent_card": True} | capabilities
    return hub.AgentCard(
        name="Scripted (ours)",
        description="Does what it is told",
        version="1.2.3",
        capabilities=hub.AgentCapabilities(**on),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[hub.AgentSkill(id="script", name="Script", description="Plays a script", tags=["test"])],
    )


def scripted_agent(**capabilities: Any) -> Agent:
    """The agent, with an extended card that has one skill more."""
    extended = card(**capabilities)
    extended.skills.add(id="more", name="More", description="For those who may", tags=["extended"])
    return Agent(ScriptedExecutor(), card=card(**capabilities), extended_card=extended)
