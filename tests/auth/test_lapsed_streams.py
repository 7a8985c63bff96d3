"""Open streams end when the credentials of their caller no longer count."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import Agent, connect, serve
from a2a_bridge.auth import ApiKeys, Authentication, BearerTokens, KeyFile, KeySetSource, ProxyHeader
from a2a_bridge.auth.bearer import LEEWAY
from a2a_bridge.bindings import DialOptions
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import state_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.runtime import ServeOptions
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
    """The error that a stream ends with."""

    async def read() -> None:
        async for _ in events:
            pass

    with pytest.raises(A2AError) as caught:
        await asyncio.wait_for(read(), PATIENCE)
    return caught.value


@pytest.mark.parametrize("executor", [Waiting, Talking])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_revoked_key_ends_the_streams_of_its_caller(
    binding: str, executor: Any, tmp_path: Path
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    keys = {name: file.create(name).text for name in ("ann", "bob")}
    options = ServeOptions(authentication=Authentication([ApiKeys(file)]), grace=0)
    async with (
        serve(Agent(executor(), name="waits"), options=options) as server,
        connect(server.card, binding=binding, options=_with(keys["ann"])) as ann,
        connect(server.card, binding=binding, options=_with(keys["bob"])) as bob,
        aclosing(ann.stream("wait")) as ended,
        aclosing(bob.stream("wait")) as other,
    ):
        await first_event(ended)
        await first_event(other)
        file.revoke("ann")
        began = time.monotonic()
        error = await end_of(ended)
        assert error.reason is Reason.UNAUTHENTICATED
        assert time.monotonic() - began < 2 + PATIENCE / 10  # a second, and what a busy machine adds
        waiting = asyncio.ensure_future(anext(other))
        with pytest.raises(A2AError, match="API key"):
            await ann.send("again")
        assert not (waiting.done() and waiting.exception())
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


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
