"""extensions(): required ones must be declared, and the reply names the active ones."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import EXTENSIONS_PARAMETER, Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.middleware import extensions
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from tests.middleware.scene import TASK, ask, get, subscribe

NEEDED, USEFUL, UNKNOWN = (f"https://e.example/{name}" for name in ("needed", "useful", "unknown"))


@pytest.fixture
def probe() -> Probe:
    probe = Probe()
    probe.on_unary = answering(TASK)
    probe.on_stream = yielding(TASK)
    return probe


def card(**required: bool) -> hub.AgentCard:
    found = [
        hub.AgentExtension(uri=f"https://e.example/{name}", required=must) for name, must in required.items()
    ]
    return hub.AgentCard(capabilities=hub.AgentCapabilities(extensions=found))


def declaring(*uris: str) -> CallContext:
    return CallContext(parameters={EXTENSIONS_PARAMETER: ",".join(uris)} if uris else {})


@pytest.mark.parametrize("call", [get, subscribe])
@pytest.mark.parametrize("declared", [(), (USEFUL,), (UNKNOWN,)])
async def test_a_required_extension_must_be_declared(
    call: Any, declared: tuple[str, ...], probe: Probe
) -> None:
    service = extensions(card(needed=True, useful=False))(probe)
    with pytest.raises(A2AError) as caught:
        await ask(service, call(declaring(*declared)))
    assert caught.value.reason is Reason.EXTENSION_SUPPORT_REQUIRED
    assert caught.value.metadata == {"requiredExtensions": NEEDED}
    assert probe.calls == []


@pytest.mark.parametrize("call", [get, subscribe])
@pytest.mark.parametrize(
    ("declared", "active"),
    [
        ((NEEDED,), NEEDED),
        ((UNKNOWN, USEFUL, NEEDED, USEFUL), f"{USEFUL}, {NEEDED}"),
    ],
)
async def test_active_extensions_are_returned(
    call: Any, declared: tuple[str, ...], active: str, probe: Probe
) -> None:
    context = declaring(*declared)
    await ask(extensions(card(needed=True, useful=False))(probe), call(context))
    assert context.reply == {EXTENSIONS_PARAMETER: active}
    assert len(probe.calls) == 1


async def test_the_extended_card_may_be_asked_for_without(probe: Probe) -> None:
    call = Call(ops.GET_EXTENDED_AGENT_CARD, hub.GetExtendedAgentCardRequest(), CallContext())
    assert await ask(extensions(card(needed=True))(probe), call) == TASK


async def test_optional_extensions_may_be_ignored(probe: Probe) -> None:
    context = declaring()
    assert await ask(extensions(card(useful=False))(probe), get(context)) == TASK
    assert context.reply == {}


async def test_an_agent_without_extensions_is_left_alone(probe: Probe) -> None:
    assert extensions(card())(probe) is probe
