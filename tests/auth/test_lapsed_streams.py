"""Open streams and waiting sends end when their caller may no longer make them."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import Agent, connect, serve
from a2a_bridge.app.peer import Peer
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.auth import (
    ApiKeys,
    Authentication,
    BearerTokens,
    KeyFile,
    KeySetSource,
    LiveRules,
    ProxyHeader,
    Rule,
)
from a2a_bridge.auth.bearer import LEEWAY
from a2a_bridge.auth.rules import end_lapsed_calls
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Principal
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import state_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe
from tests.auth.identity_provider import AUDIENCE, provider_running
from tests.limits.scene import Waiting, first_event
from tests.patience import PATIENCE
from tests.runtime.scene import BINDINGS


class Talking:
    """Sends pieces of text until it is cancelled."""

    async def execute(self, run: Any) -> AsyncIterator[Any]:
        yield run.status("working")
        while True:
            yield run.artifact("x", artifact_id="a", append=True, last=False)
            await asyncio.sleep(0.01)


async def end_of(events: Any) -> A2AError:
    async def read() -> None:
        async for _ in events:
            pass

    with pytest.raises(A2AError) as caught:
        await asyncio.wait_for(read(), PATIENCE)
    return caught.value


async def failure_of(call: asyncio.Future[Any]) -> A2AError:
    """The error that a unary call ends with."""
    with pytest.raises(A2AError) as caught:
        await asyncio.wait_for(call, PATIENCE)
    return caught.value


async def has_tasks(caller: Peer, count: int) -> None:
    """Waits until a caller has so many tasks."""
    async with asyncio.timeout(PATIENCE):
        while len((await caller.list_tasks(hub.ListTasksRequest())).tasks) < count:
            pass


@pytest.mark.parametrize("by", ["key", "rules"])
@pytest.mark.parametrize("executor", [Waiting, Talking])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_calls_of_a_caller_end_with_its_key_and_with_its_permission(
    binding: str, executor: Any, by: str, tmp_path: Path
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    keys = {name: file.create(name).text for name in ("ann", "bob")}
    rules = LiveRules([Rule(principals=("*",))])
    ruled: dict[str, Any] = {"access_rules": rules} if by == "rules" else {}
    options = ServeOptions(authentication=Authentication([ApiKeys(file)]), grace=0, **ruled)
    async with (
        serve(Agent(executor(), name="waits"), options=options) as server,
        connect(server.card, binding=binding, options=_with(keys["ann"])) as ann,
        connect(server.card, binding=binding, options=_with(keys["bob"])) as bob,
        aclosing(ann.stream("wait")) as ended,
        aclosing(bob.stream("wait")) as other,
    ):
        await first_event(ended)
        await first_event(other)
        sending = asyncio.ensure_future(ann.send("wait"))
        await has_tasks(ann, 2)
        if by == "key":
            file.revoke("ann")
            reason, words = Reason.UNAUTHENTICATED, "API key"
        else:
            rules.change([Rule(("read",)), Rule(principals=("bob",))])
            reason, words = Reason.PERMISSION_DENIED, "is not allowed"
        for error in (await end_of(ended), await failure_of(sending)):
            assert error.reason is reason
        waiting = asyncio.ensure_future(anext(other))
        if by == "rules":
            assert len((await ann.list_tasks(hub.ListTasksRequest())).tasks) == 2
        with pytest.raises(A2AError, match=words):
            await ann.send("again")
        assert not (waiting.done() and waiting.exception())
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


class Gone:
    """A method whose callers have lapsed since it has identified them."""

    scheme_name, parameters, challenge = "gone", frozenset({"x-key"}), ""

    def scheme(self) -> None:
        return None

    async def identify(self, _presented: Any) -> Principal | None:
        return None

    def counts(self, _principal: Principal) -> bool:
        return False


async def test_a_call_that_arrives_after_its_caller_has_lapsed_does_not_begin() -> None:
    """Its caller was identified by its head, and its body took long."""
    probe = Probe()
    service = end_lapsed_calls(Authentication([Gone()]))(probe)
    context = CallContext(principal=Principal("ann", method="gone"))
    for call in (
        Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), context),
        Call(ops.SEND_MESSAGE, hub.SendMessageRequest(), context),
    ):
        with pytest.raises(A2AError) as caught:
            await service.unary(call)
        assert caught.value.reason is Reason.UNAUTHENTICATED
    with pytest.raises(A2AError) as caught:
        await anext(service.stream(Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t"), context)))
    assert caught.value.reason is Reason.UNAUTHENTICATED
    assert not probe.calls


def test_for_a_successor_rules_only_narrow() -> None:
    rules = LiveRules([Rule(principals=("ann",))])

    def allowed() -> list[str]:
        return [name for name in ("ann", "bob") if rules.denial("", "GetTask", Principal(name)) is None]

    rules.narrow([Rule(principals=("ann", "bob"))])
    assert allowed() == ["ann"]
    rules.narrow([Rule(principals=("bob",))])
    assert allowed() == []
    rules.narrow([])
    assert allowed() == ["ann"]
    rules.change([Rule(principals=("bob",))])
    assert allowed() == ["bob"]


def _with(key: str) -> DialOptions:
    return DialOptions(parameters={"x-api-key": key})


@pytest.mark.parametrize("outlives", [False, True])
async def test_an_expired_token_ends_the_streams_of_its_caller(outlives: bool) -> None:
    now = time.time()
    async with provider_running() as provider:
        tokens = BearerTokens(
            provider.issuer,
            [AUDIENCE],
            KeySetSource(provider.issuer),
            streams_outlive=outlives,
            now=lambda: now,
        )
        options = ServeOptions(authentication=Authentication([tokens]), grace=0)
        token = provider.token(exp=int(now) + 100)
        dialled = DialOptions(parameters={"authorization": f"Bearer {token}"})
        executor = Waiting()
        async with (
            serve(Agent(executor, name="waits"), options=options) as server,
            connect(server.card, options=dialled) as peer,
            aclosing(peer.stream("wait")) as events,
        ):
            await first_event(events)
            now += 101 + LEEWAY
            if not outlives:
                assert (await end_of(events)).reason is Reason.UNAUTHENTICATED
                return
            with pytest.raises(A2AError, match="bearer token"):
                await peer.send("again")
            executor.go.set()
            async with asyncio.timeout(PATIENCE):
                states = [state_of(event) async for event in events]
            assert states[-1] == hub.TASK_STATE_COMPLETED


async def test_a_caller_that_cannot_lapse_is_not_watched(tmp_path: Path) -> None:
    methods = [ApiKeys(KeyFile(_created(tmp_path))), ProxyHeader("X-User", ("127.0.0.1",))]
    executor = Waiting()
    options = ServeOptions(authentication=Authentication(methods))
    async with (
        serve(Agent(executor, name="waits"), options=options) as server,
        connect(server.card, options=DialOptions(parameters={"x-user": "ann"})) as peer,
        aclosing(peer.stream("wait")) as events,
    ):
        await first_event(events)
        executor.go.set()
        async with asyncio.timeout(PATIENCE):
            states = [state_of(event) async for event in events]
            assert states[-1] == hub.TASK_STATE_COMPLETED


def _created(folder: Path) -> Path:
    KeyFile(folder / "keys.json").create("ann")
    return folder / "keys.json"
