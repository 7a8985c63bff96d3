"""Dialling on first use, fallback after connection failures only, cancellation of the call below."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from a2a_bridge.app.runtime import serve_service
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.core.operations import GET_TASK, SEND_STREAMING_MESSAGE, SUBSCRIBE_TO_TASK
from a2a_bridge.core.service import Event, Events
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.gateway.failover import COOL_DOWN, Failover, dial_failover
from a2a_bridge.gateway.upstream import QUIET, Upstream, is_connect_failure
from a2a_bridge.gateway.upstream import dial as upstream_dial
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from tests.patience import PATIENCE
from tests.rejections import rejected

OPTIONS = DialOptions()


def no_connection() -> A2AError:
    return A2AError(Reason.UNAVAILABLE, "rejected", metadata={"phase": "connect"}, blame=Blame.PEER)


def get_task(task_id: str = "t") -> Call[Any, Any]:
    return Call(GET_TASK, hub.GetTaskRequest(id=task_id), CallContext())


def streaming() -> Call[Any, Any]:
    return Call(SEND_STREAMING_MESSAGE, hub.SendMessageRequest(), CallContext())


class Agent:
    """Answers with its name, or fails as configured: in a stream after so many events."""

    def __init__(self, name: str, failure: Exception | None = None, after: int = 0) -> None:
        self.name, self.failure, self.after = name, failure, after
        self.calls: list[Call[Any, Any]] = []
        self.dials = 0
        self.hung_up = 0
        self.closed_streams = 0

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure
        return hub.Task(id=self.name)

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.calls.append(call)
        try:
            for number in range(3):
                if self.failure is not None and number == self.after:
                    raise self.failure
                yield Event(hub.StreamResponse(task=hub.Task(id=f"{self.name}{number}")))
        finally:
            self.closed_streams += 1


def agents_by_url(*agents: Agent) -> Any:
    known = {agent.name: agent for agent in agents}

    @asynccontextmanager
    async def dial(candidate: Candidate, _: DialOptions) -> AsyncIterator[Agent]:
        agent = known[candidate.interface.url]
        agent.dials += 1
        try:
            yield agent
        finally:
            agent.hung_up += 1

    return dial


def candidates(*agents: Agent) -> list[Candidate]:
    return [Candidate(interface("JSONRPC", agent.name), V1_0) for agent in agents]


async def ids(events: Events) -> list[str]:
    async with aclosing(events):
        return [event.message.task.id async for event in events]


async def test_nothing_is_dialled_before_the_first_call_and_once_for_all_calls() -> None:
    agent = Agent("a")
    async with dial_failover(candidates(agent), OPTIONS, dial=agents_by_url(agent)) as service:
        assert agent.dials == 0
        for _ in range(3):
            assert (await service.unary(get_task())).id == "a"
        assert await ids(service.stream(streaming())) == ["a0", "a1", "a2"]
        assert (agent.dials, agent.hung_up) == (1, 0)
    assert agent.hung_up == 1


async def test_the_call_and_its_request_pass_by_reference() -> None:
    agent, call = Agent("a"), get_task()
    async with dial_failover(candidates(agent), OPTIONS, dial=agents_by_url(agent)) as service:
        await service.unary(call)
    assert agent.calls[0] is call


async def test_the_next_interface_answers_when_the_first_takes_no_connection() -> None:
    down, up = Agent("down", no_connection()), Agent("up")
    async with dial_failover(candidates(down, up), OPTIONS, dial=agents_by_url(down, up)) as service:
        assert (await service.unary(get_task())).id == "up"
        assert await ids(service.stream(streaming())) == ["up0", "up1", "up2"]


async def test_an_interface_that_cannot_be_dialled_is_left_out_and_the_next_one_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old, good = interface("GRPC", "127.0.0.1:1/path"), interface("JSONRPC", "up")
    by_url = agents_by_url(Agent("up"))

    def dial(candidate: Candidate, options: DialOptions) -> Any:
        one = candidate.interface
        return (
            upstream_dial(candidate, options)
            if one.protocol_binding == "GRPC"
            else by_url(candidate, options)
        )

    offered = [Candidate(old, V1_0), Candidate(good, V1_0)]
    async with dial_failover(offered, OPTIONS, dial=dial) as service:
        assert (await service.unary(get_task())).id == "up"
        assert await ids(service.stream(streaming())) == ["up0", "up1", "up2"]
    assert "host and port alone" in caplog.text
    async with dial_failover(offered, OPTIONS, dial=dial) as service:
        await service.open()
        assert [one.candidate for one in service.upstreams] == offered[1:]
    async with dial_failover(offered[:1], OPTIONS, dial=dial) as service:
        with pytest.raises(
            A2AError, match=r"no interface of the agent can be used.*host and port alone"
        ) as caught:
            await service.open()
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION


@pytest.mark.parametrize(
    ("binding", "url", "dialect"),
    [
        ("JSONRPC", "ftp://a", V1_0),
        ("HTTP+JSON", "", V1_0),
        ("GRPC", "a:1", replace(V1_0, forms={})),
        ("HTTP+JSON", "http://a", replace(V1_0, forms={})),
    ],
)
async def test_interfaces_that_no_binding_can_dial_are_no_internal_error(
    binding: str, url: str, dialect: Dialect
) -> None:
    async with dial_failover([Candidate(interface(binding, url), dialect)], OPTIONS) as service:
        with pytest.raises(A2AError) as caught:
            await service.unary(get_task())
        assert is_connect_failure(caught.value)
        with pytest.raises(A2AError, match="no interface of the agent can be used"):
            await service.open()


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_parameters_of_the_options_go_where_they_may(binding: str) -> None:
    probe = Probe()
    probe.on_unary = answering(hub.Task(id="t"))
    looked: list[str] = []

    async def resolve(host: str, _port: int) -> Sequence[str]:
        looked.append(host)
        return ["127.0.0.1"]

    options = DialOptions(parameters={"x-key": "secret"})
    async with serve_service(probe, hub.AgentCard(name="a"), [interface(binding)]) as server:
        [place] = server.card.supported_interfaces
        place.url = place.url.replace("127.0.0.1", "localhost")
        for credentials, guard in ((True, None), (False, None), (False, resolve)):
            candidate = Candidate(place, V1_0, credentials, guard)
            async with dial_failover([candidate], options) as service:
                await service.unary(get_task())
    sent = [call.context.parameters.get("x-key") for call in probe.calls]
    assert sent == ["secret", None, None]
    assert looked == ["localhost"]


@pytest.mark.parametrize(
    "failure",
    [
        A2AError(Reason.UNAVAILABLE, "gone in the middle", blame=Blame.PEER),
        A2AError(Reason.TASK_NOT_FOUND),
        A2AError(Reason.INTERNAL_ERROR, metadata={"phase": "connect"}),
        RuntimeError("a defect"),
    ],
)
async def test_no_other_failure_makes_a_second_agent_see_the_call(failure: Exception) -> None:
    failing, other = Agent("failing", failure), Agent("other")
    async with dial_failover(
        candidates(failing, other), OPTIONS, dial=agents_by_url(failing, other)
    ) as service:
        with pytest.raises(type(failure)) as caught:
            await service.unary(get_task())
        assert caught.value is failure
        with pytest.raises(type(failure)) as caught:
            await ids(service.stream(streaming()))
        assert caught.value is failure
    assert other.calls == []


async def test_a_stream_that_has_begun_does_not_begin_again_elsewhere() -> None:
    breaking, other = Agent("breaking", no_connection(), after=1), Agent("other")
    async with dial_failover(
        candidates(breaking, other), OPTIONS, dial=agents_by_url(breaking, other)
    ) as service:
        events = service.stream(streaming())
        assert (await anext(events)).message.task.id == "breaking0"
        with pytest.raises(A2AError):
            await anext(events)
    assert other.calls == []


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_message_whose_stream_has_no_event_gets_an_error(binding: str) -> None:
    probe = Probe()
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="x")])
    sent = Call(SEND_STREAMING_MESSAGE, hub.SendMessageRequest(message=message), CallContext())
    async with serve_service(probe, hub.AgentCard(name="a"), [interface(binding)]) as agent:
        [candidate] = [Candidate(one, V1_0) for one in agent.card.supported_interfaces]
        async with dial_failover([candidate], OPTIONS) as service:
            with pytest.raises(A2AError) as caught:
                await ids(service.stream(sent))
            subscribed = Call(SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), CallContext())
            assert await ids(service.stream(subscribed)) == []
    assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE
    assert caught.value.message == "the agent's stream ended without an event"


async def test_a_recently_failed_interface_is_tried_last_for_a_while() -> None:
    now = 100.0
    first, second = Agent("first", no_connection()), Agent("second")
    dial = agents_by_url(first, second)
    upstreams = [
        Upstream(candidate, OPTIONS, dial=dial, clock=lambda: now) for candidate in candidates(first, second)
    ]
    service = Failover(upstreams, clock=lambda: now)
    await service.unary(get_task())
    assert upstreams[0].health.reachable is False
    # Each failed attempt counts, not only the first.
    now += COOL_DOWN
    for _ in range(3):
        assert (await service.unary(get_task())).id == "second"
    assert len(first.calls) == 2
    first.failure = None
    assert (await service.unary(get_task())).id == "second"
    now += COOL_DOWN
    assert (await service.unary(get_task())).id == "first"
    assert upstreams[0].health.reachable is True
    await service.aclose()


async def test_if_no_interface_is_reachable_the_error_marks_the_connect_phase() -> None:
    one, two = Agent("one", no_connection()), Agent("two", no_connection())
    async with dial_failover(candidates(one, two), OPTIONS, dial=agents_by_url(one, two)) as service:
        with pytest.raises(A2AError) as unary:
            await service.unary(get_task())
        with pytest.raises(A2AError) as stream:
            await ids(service.stream(streaming()))
    assert is_connect_failure(unary.value)
    assert is_connect_failure(stream.value)
    assert len(one.calls) == len(two.calls) == 2


async def test_an_error_an_agent_answers_is_a_sign_of_life() -> None:
    agent = Agent("a", A2AError(Reason.TASK_NOT_FOUND))
    upstream = Upstream(candidates(agent)[0], OPTIONS, dial=agents_by_url(agent))
    assert upstream.health.reachable is None
    with pytest.raises(A2AError):
        await upstream.unary(get_task())
    assert upstream.health.reachable is True
    await upstream.aclose()


async def test_a_closed_upstream_is_not_dialled_again() -> None:
    agent = Agent("a")
    upstream = Upstream(candidates(agent)[0], OPTIONS, dial=agents_by_url(agent))
    await upstream.unary(get_task())
    await upstream.aclose()
    for call in (upstream.unary(get_task()), anext(aiter(upstream.stream(streaming())))):
        with rejected(Reason.UNAVAILABLE) as caught:
            await call
        assert is_connect_failure(caught.value)
    assert agent.dials == 1


class Refusing(Agent):
    """Accepts no connection any more, which a call finds out when the test says so."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked = asyncio.Event()
        self.refuses = asyncio.Event()

    async def unary(self, call: Call[Any, Any], /) -> Any:
        if call.request.id == "last":
            self.asked.set()
            await self.refuses.wait()
            raise no_connection()
        return await super().unary(call)


@pytest.mark.parametrize("known", [False, True], ids=["first call", "later call"])
async def test_a_call_to_an_interface_that_has_been_replaced_says_nothing_about_the_agent(
    known: bool,
) -> None:
    """Else the gateway would not be ready any more, although the new interface answers."""
    old, new = Refusing("old"), Agent("new")
    dial = agents_by_url(old, new)
    first, second = (Upstream(one, OPTIONS, dial=dial) for one in candidates(old, new))
    service = Failover([first])
    if known:
        await service.unary(get_task())
    call = asyncio.create_task(service.unary(get_task("last")))
    async with asyncio.timeout(PATIENCE):
        await old.asked.wait()
    assert await service.replace([second]) == [first]
    old.refuses.set()
    await asyncio.gather(call, return_exceptions=True)
    assert (await service.unary(get_task())).id == "new"
    assert not service.is_gone
    await service.aclose()


async def test_an_agent_that_is_gone_is_one_warning_and_its_return_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "a2a_bridge.gateway")
    one, two = Agent("one", no_connection()), Agent("two", no_connection())
    async with dial_failover(candidates(one, two), OPTIONS, dial=agents_by_url(one, two)) as service:
        for _ in range(3):
            with pytest.raises(A2AError):
                await service.unary(get_task())
            with pytest.raises(A2AError):
                await ids(service.stream(streaming()))
        two.failure = None
        for _ in range(3):
            await service.unary(get_task())
    lost, found = (record.getMessage() for record in caplog.records)
    assert lost.startswith("the agent cannot be reached: ")
    assert all(f"{one}>: " in lost for one in ("one", "two"))
    assert found.startswith("the agent can be reached again: <Upstream ")


async def test_an_interface_that_is_gone_while_another_answers_is_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "a2a_bridge.gateway")
    now = 100.0
    one, two = Agent("one", no_connection()), Agent("two")
    dial = agents_by_url(one, two)
    upstreams = [
        Upstream(candidate, OPTIONS, dial=dial, clock=lambda: now) for candidate in candidates(one, two)
    ]
    service = Failover(upstreams, clock=lambda: now)
    for one.failure in (no_connection(), no_connection(), None, None):
        now += COOL_DOWN
        await service.unary(get_task())
    await service.aclose()
    lost, found = (record.getMessage() for record in caplog.records)
    assert lost.startswith("an interface cannot be reached, the next one is used: ")
    assert found.startswith("an interface can be reached again: <Upstream ")


async def test_a_fault_of_the_agent_is_logged_with_its_cause_and_not_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "a2a_bridge.gateway")
    now = 100.0
    agent = Agent("a", A2AError(Reason.INTERNAL_ERROR))
    agent.failure.add_note("HTTP 500 from http://a: out of memory")  # type: ignore[union-attr]
    upstream = Upstream(candidates(agent)[0], OPTIONS, dial=agents_by_url(agent), clock=lambda: now)
    for _ in range(3):
        with pytest.raises(A2AError):
            await upstream.unary(get_task())
    now += QUIET
    with pytest.raises(A2AError):
        await upstream.unary(get_task())
    await upstream.aclose()
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("GetTask failed at <Upstream ")
    assert first.endswith("HTTP 500 from http://a: out of memory")
    assert second.endswith("out of memory (2 more since the last one)")


@pytest.mark.parametrize("failure", [A2AError(Reason.TASK_NOT_FOUND), A2AError(Reason.INVALID_PARAMS)])
async def test_rejections_of_an_agent_are_no_faults(
    failure: A2AError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "a2a_bridge.gateway")
    agent = Agent("a", failure)
    async with dial_failover(candidates(agent), OPTIONS, dial=agents_by_url(agent)) as service:
        with pytest.raises(A2AError):
            await service.unary(get_task())
    assert not caplog.records


async def test_closing_a_stream_closes_the_one_below() -> None:
    down, up = Agent("down", no_connection()), Agent("up")
    async with dial_failover(candidates(down, up), OPTIONS, dial=agents_by_url(down, up)) as service:
        async with aclosing(service.stream(streaming())) as events:
            await anext(events)
            assert up.closed_streams == 0
        assert up.closed_streams == 1


async def test_cancelling_a_call_cancels_the_one_below() -> None:
    reached, cancelled = asyncio.Event(), asyncio.Event()

    class Slow(Agent):
        async def unary(self, call: Call[Any, Any], /) -> Any:
            reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

    slow = Slow("slow")
    async with dial_failover(candidates(slow), OPTIONS, dial=agents_by_url(slow)) as service:
        task = asyncio.create_task(service.unary(get_task()))
        await asyncio.wait_for(reached.wait(), PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled.is_set()


def test_an_agent_without_interfaces_is_no_agent() -> None:
    with pytest.raises(ValueError):
        Failover([])


async def test_a_discreet_error_does_not_tell_where_the_agent_is() -> None:
    one, two = Agent("10.0.0.7", no_connection()), Agent("10.0.0.8", no_connection())
    for listed in ([one], [one, two]):
        dial = agents_by_url(one, two)
        service = Failover(
            [Upstream(each, OPTIONS, dial=dial) for each in candidates(*listed)], discreet=True
        )
        for failing in (service.unary(get_task()), ids(service.stream(streaming()))):
            with rejected(Reason.UNAVAILABLE) as caught:
                await failing
            assert caught.value.blame is Blame.PEER
            assert "rejected" not in caught.value.message
            assert not is_connect_failure(caught.value)
        await service.aclose()
