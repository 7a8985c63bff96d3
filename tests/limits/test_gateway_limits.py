"""A gateway has limits of its own, independent of those of the agent."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from a2a_bridge import A2AError, Reason, interface
from a2a_bridge.app.runtime import ServeOptions, Server, serve_gateway
from a2a_bridge.auth import ApiKeys, Authentication, KeyFile
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.cards import select
from a2a_bridge.middleware import Limits
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.limits.scene import BINDINGS, Waiting, agent, first_event, peers, rejected, served


@asynccontextmanager
async def before(server: Server, options: ServeOptions) -> AsyncIterator[Server]:
    candidates = select(server.card, known=["GRPC"])
    interfaces = [interface(kind) for kind in BINDINGS]
    async with serve_gateway(server.card, candidates, interfaces, options) as gateway:
        yield gateway


async def test_requests() -> None:
    options = ServeOptions(limits=Limits(parts=2), host=HostOptions(max_body=4096))
    async with (
        served(agent(Waiting()), ServeOptions()) as server,
        before(server, options) as gateway,
        peers(gateway) as callers,
    ):
        error = await rejected(callers, lambda peer: peer.send("x", "y", "z"))
        assert (error.reason, [one.field for one in error.violations]) == (
            Reason.INVALID_PARAMS,
            ["message.parts"],
        )
        error = await rejected(callers, lambda peer: peer.send("x" * 8192))
        assert error.reason is Reason.REQUEST_TOO_LARGE
        for peer in callers.values():
            assert (await peer.send("x")).text == "x"


async def test_streams() -> None:
    executor = Waiting()
    async with (
        served(agent(executor), ServeOptions()) as server,
        before(server, ServeOptions(limits=Limits(streams=1))) as gateway,
        peers(gateway) as callers,
        aclosing(callers["JSONRPC"].stream("wait")) as one,
    ):
        await first_event(one)
        error = await rejected(callers, lambda peer: first_event(peer.stream("x")))
        assert (error.reason, error.retry_after) == (Reason.RESOURCE_EXHAUSTED, 1.0)
        executor.go.set()


async def test_rejections_of_the_agent_pass_unchanged() -> None:
    executor = Waiting()
    async with (
        served(agent(executor), ServeOptions(limits=Limits(streams=1))) as server,
        before(server, ServeOptions()) as gateway,
        peers(gateway) as callers,
        aclosing(callers["JSONRPC"].stream("wait")) as one,
    ):
        await first_event(one)
        error = await rejected(callers, lambda peer: first_event(peer.stream("x")))
        assert (error.reason, error.retry_after) == (Reason.RESOURCE_EXHAUSTED, 1.0)
        executor.go.set()


async def test_names_that_it_keeps(tmp_path: Path) -> None:
    # An agent of 0.3 has no tenants, and gets other names of contexts from a gateway that checks callers.
    file = KeyFile(tmp_path / "keys.json")
    key = file.create("ann").text
    options = ServeOptions(authentication=Authentication([ApiKeys(file)]))
    async with served(agent(Waiting()), ServeOptions(), version="0.3") as server:
        candidates = select(server.card, known=["JSONRPC"], version="0.3")
        interfaces = [interface(kind) for kind in BINDINGS]
        async with (
            serve_gateway(server.card, candidates, interfaces, options) as gateway,
            peers(gateway, parameters={"x-api-key": key}) as callers,
        ):
            for tenant, context_id, fields in (
                ("t" * 256, "c" * 1024, []),
                ("t" * 257, "c", ["tenant"]),
                ("", "c" * 1025, ["message.contextId"]),
            ):
                message = hub.Message(
                    message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="x")], context_id=context_id
                )
                asked = hub.SendMessageRequest(tenant=tenant, message=message)
                if not fields:
                    for peer in callers.values():
                        await peer.send_message(asked)
                    continue
                error = await rejected(callers, lambda peer, asked=asked: peer.send_message(asked))  # type: ignore[misc]
                assert (error.reason, [one.field for one in error.violations]) == (
                    Reason.INVALID_PARAMS,
                    fields,
                )
                for peer in callers.values():
                    with pytest.raises(A2AError) as caught:
                        await first_event(peer.send_streaming_message(asked))
                    assert [one.field for one in caught.value.violations] == fields
            get = hub.GetTaskRequest(tenant="t" * 257, id="x")
            error = await rejected(callers, lambda peer: peer.get_task(get))
            assert [one.field for one in error.violations] == ["tenant"]
