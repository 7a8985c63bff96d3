"""An agent with an extended card, without streams and push notifications, to be served with API keys."""

from a2a_bridge import Agent
from a2a_bridge.ext import hub
from a2a_bridge_tools.demo_agent import Demo

_SKILL = hub.AgentSkill(id="more", name="More", description="For those who may", tags=["extended"])

guarded = Agent(
    Demo(),
    name="Guarded",
    description="Shows its extended card to callers that it knows",
    streaming=False,
    extended_card=hub.AgentCard(
        name="Guarded", description="The extended card", version="1.0.0", skills=[_SKILL]
    ),
)
