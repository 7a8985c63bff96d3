"""Token exchange: the agent gets a token on behalf of the caller, and nobody else's."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import connect, interface
from a2a_bridge.app.runtime import ServeOptions, serve_service
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.call import CallContext, Principal
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.gateway.credentials.grants import REJECTED, TokenExchange
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from tests.auth.identity_provider import AUDIENCE, Provider, new_key, provider_running
from tests.gateway.credentials_scene import Clock, Edge, agent_checking, checking, endpoint, gateway, said
from tests.gateway.test_gateway import card as probe_card
from tests.patience import PATIENCE
from tests.rejections import rejected
from tests.runtime.scene import BINDINGS


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with provider_running() as running:
        yield running


@pytest.mark.parametrize("upstream", BINDINGS)
async def test_the_token_of_each_caller_is_exchanged_once(provider: Provider, upstream: str) -> None:
    credentials = TokenExchange(endpoint(provider), audience=AUDIENCE, scope="talk")
    edge = checking(provider).authentication
    tokens = {name: provider.token(sub=name) for name in ("ann", "bob")}
    async with (
        agent_checking(provider, upstream) as agent,
        gateway(agent.card, credentials, authentication=edge) as server,
    ):
        for front in BINDINGS:
            for name, token in tokens.items():
                answer = await said(server.card, front, authorization=f"Bearer {token}")
                assert answer == f"{name} {{'sub': 'bridge'}}"
    assert [one["subject_token"] for one in provider.grants] == list(tokens.values())
    assert {one["subject_token_type"].rpartition(":")[2] for one in provider.grants} == {"access_token"}


@pytest.mark.parametrize("upstream", BINDINGS)
async def test_a_stream_that_is_opened_again_is_still_that_of_its_caller(
    provider: Provider, upstream: str
) -> None:
    status = hub.TaskStatus(state=hub.TASK_STATE_WORKING)
    working = hub.StreamResponse(task=hub.Task(id="t", context_id="c", status=status))
    done = hub.TaskStatus(state=hub.TASK_STATE_COMPLETED)
    probe = Probe()
    names: list[str] = []

    async def subscribed(call: Any) -> Any:
        names.append(call.operation.name)
        if call.operation.name == "SendStreamingMessage":
            yield working
            raise A2AError(Reason.UNAVAILABLE, "the connection broke")
        yield hub.StreamResponse(task=hub.Task(id="t", context_id="c", status=done))

    probe.on_stream = subscribed
    probe.on_unary = answering(hub.Task(id="t", context_id="c", status=status))
    credentials = TokenExchange(endpoint(provider), audience=AUDIENCE)
    edge = checking(provider).authentication
    caller = DialOptions(parameters={"authorization": f"Bearer {provider.token()}"})
    async with (
        serve_service(probe, probe_card(), [interface(upstream)], ServeOptions(grace=0)) as agent,
        gateway(agent.card, credentials, authentication=edge) as server,
        connect(server.card, options=caller) as peer,
    ):
        request = hub.SendMessageRequest(
            message=hub.Message(message_id="1", role=hub.ROLE_USER, parts=[hub.Part(text="x")])
        )
        async with asyncio.timeout(PATIENCE):
            events = [event async for event in peer.send_streaming_message(request)]
    assert events[-1].task.status.state == hub.TASK_STATE_COMPLETED
    assert names == ["SendStreamingMessage", "SubscribeToTask"]
    sent = {call.context.parameters["authorization"] for call in probe.calls}
    assert len(sent) == 1
    assert sent != {caller.parameters["authorization"]}
    assert len(provider.grants) == 1


async def test_callers_without_a_token_of_their_own_are_told(provider: Provider, tmp_path: Path) -> None:
    edge = Edge(tmp_path, provider)
    credentials, problems = TokenExchange(endpoint(provider)), set()
    async with (
        serve_service(edge.probe, probe_card(), [interface("JSONRPC")], ServeOptions(grace=0)) as agent,
        gateway(agent.card, credentials, authentication=edge.authentication) as server,
    ):
        for front in BINDINGS:
            # The API key decides who calls; the token beside it is not verified, so it is not exchanged.
            for way in (edge.ways[0], edge.ways[2], edge.ways[3]):
                async with connect(server.card, binding=front, options=DialOptions(parameters=way)) as peer:
                    with pytest.raises(A2AError) as failed:
                        await peer.send("hi")
                problems.add((failed.value.reason, failed.value.message))
    assert problems == {
        (
            Reason.UNAUTHENTICATED,
            "the agent is called on behalf of its caller, which needs a bearer token for that",
        )
    }
    assert edge.probe.calls == []
    assert provider.grants == []


async def test_exchange_needs_an_edge(provider: Provider) -> None:
    async with agent_checking(provider) as agent:
        with pytest.raises(ValueError, match="authenticates its callers"):
            async with gateway(agent.card, TokenExchange(endpoint(provider))):
                pass


def on_behalf(token: str, **claims: Any) -> CallContext:
    claims = {"iss": "i", **claims}
    return CallContext(parameters={"authorization": f"Bearer {token}"}, principal=Principal("ann", claims))


async def test_a_token_that_is_not_exchanged_is_tried_again_after_a_while(provider: Provider) -> None:
    clock = Clock()
    credentials = TokenExchange(endpoint(provider, clock), clock=clock)
    other = Provider(issuer=provider.issuer, keys=[new_key()])
    for token, reason in (
        (other.token(), Reason.UNAUTHENTICATED),
        (provider.token(sub="mallory"), Reason.PERMISSION_DENIED),
    ):
        provider.grants.clear()
        for _ in range(3):
            with rejected(reason):
                await credentials.of(on_behalf(token))
        assert len(provider.grants) == 1
        clock.now += REJECTED + 1
        with pytest.raises(A2AError):
            await credentials.of(on_behalf(token))
        assert len(provider.grants) == 2
    # Others are not affected.
    assert (await credentials.of(on_behalf(provider.token())))["authorization"].startswith("Bearer ey")


@pytest.mark.parametrize(
    "code",
    [
        "invalid_request",
        "invalid_grant",
        "invalid_token",
        "interaction_required",
        "login_required",
        "consent_required",
        "invalid_scope",
        "invalid_target",
    ],
)
async def test_a_caller_who_gets_no_token_does_not_pause_the_others(provider: Provider, code: str) -> None:
    provider.refused["bob"] = code
    credentials = TokenExchange(endpoint(provider), audience=AUDIENCE)
    edge = checking(provider).authentication
    ann, bob = (f"Bearer {provider.token(sub=name)}" for name in ("ann", "bob"))
    async with (
        agent_checking(provider) as agent,
        gateway(agent.card, credentials, authentication=edge) as server,
    ):
        with rejected(Reason.UNAUTHENTICATED):
            await said(server.card, "JSONRPC", authorization=bob)
        assert (await said(server.card, "JSONRPC", authorization=ann)).startswith("ann ")


async def outcome(credentials: TokenExchange, token: str, name: str) -> Reason | None:
    context = CallContext(
        parameters={"authorization": f"Bearer {token}"}, principal=Principal(name, {"iss": "i"})
    )
    try:
        await credentials.of(context)
    except A2AError as error:
        return error.reason
    return None


@pytest.mark.parametrize("failure", [(400, "slow_down"), (400, "unauthorized_client"), (503, ""), (200, "?")])
async def test_a_failure_for_one_caller_pauses_only_this_caller(
    provider: Provider, failure: tuple[int, str]
) -> None:
    """Also if it goes on, and if the caller has many tokens."""
    clock = Clock()
    credentials = TokenExchange(endpoint(provider, clock, chance=lambda: 1.0), clock=clock)
    status, code = failure
    broken = status, json.dumps({"error": code}).encode()
    for number in range(5):
        provider.answers["/token"] = broken
        asked = len(provider.grants)
        for tries in range(3):  # the same caller, with a token that is new each time
            token = provider.token(sub="eve", jti=f"{number} {tries}")
            assert await outcome(credentials, token, "eve") is Reason.UNAVAILABLE
        assert len(provider.grants) == asked + 1  # the pause of this caller
        del provider.answers["/token"]
        token = provider.token(sub="ann", jti=str(number))
        assert await outcome(credentials, token, "ann") is None
        clock.now += 61
    assert await outcome(credentials, provider.token(sub="eve"), "eve") is None


async def test_a_failure_for_several_callers_pauses_all(provider: Provider) -> None:
    clock = Clock()
    credentials = TokenExchange(endpoint(provider, clock, chance=lambda: 1.0), clock=clock)
    provider.answers["/token"] = 503, b"down"
    for name in ("ann", "bob", "carol", "dan"):
        assert await outcome(credentials, provider.token(sub=name), name) is Reason.UNAVAILABLE
    assert len(provider.grants) == 2
    del provider.answers["/token"]
    clock.now += 2
    for name in ("ann", "bob", "carol", "dan"):
        assert await outcome(credentials, provider.token(sub=name), name) is None


async def test_what_is_no_fault_of_a_caller_pauses_all_at_once(provider: Provider) -> None:
    clock = Clock()
    found = endpoint(provider, clock, chance=lambda: 1.0, secret=lambda: "wrong")
    credentials = TokenExchange(found, clock=clock)
    for name in ("ann", "bob", "carol"):
        assert await outcome(credentials, provider.token(sub=name), name) is Reason.UNAVAILABLE
    assert len(provider.grants) == 1
