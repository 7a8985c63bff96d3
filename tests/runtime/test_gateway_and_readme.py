"""A gateway as runtime composes it, and warnings it gives once."""

import logging
import re
from typing import Any

import pytest

import a2a_bridge
from a2a_bridge import connect, interface, serve
from a2a_bridge.app.planning import VERSIONS
from a2a_bridge.app.runtime import ServeOptions, asgi_gateway, serve_gateway, serve_service
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cards import select
from a2a_bridge.codec import rounded
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import Reason
from a2a_bridge.core.operations import GET_EXTENDED_AGENT_CARD
from a2a_bridge.core.resume import offers_resume
from a2a_bridge.core.service import Events
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOpenError
from tests.rejections import rejected
from tests.runtime.scene import BINDINGS, agent, uvicorn_running


@pytest.mark.parametrize("spoken", BINDINGS)
async def test_an_agent_behind_a_gateway(spoken: str) -> None:
    async with serve(agent(), [interface(spoken, tenant="acme")]) as upstream:
        candidates = select(upstream.card, known=BINDINGS)
        async with serve_gateway(upstream.card, candidates) as server:
            served = [
                (one.protocol_version, one.protocol_binding) for one in server.card.supported_interfaces
            ]
            assert served == [(version, binding) for version in VERSIONS for binding in BINDINGS]
            for binding in BINDINGS:
                async with connect(server.card, binding=binding) as peer:
                    assert (await peer.send("tenant")).text == "tenant=acme"
                    assert [one async for one in peer.stream_text("words")] == ["one ", "two"]
                    extended = await peer.get_extended_agent_card()
                    assert extended.supported_interfaces == server.card.supported_interfaces


EXTENDED = hub.AgentCard(
    name="extended", version="1", capabilities=hub.AgentCapabilities(streaming=True, extended_agent_card=True)
)


class OnlyExtendedCard:
    """An agent that cannot resume streams."""

    async def unary(self, call: Call[Any, Any], /) -> Any:
        assert call.operation is GET_EXTENDED_AGENT_CARD
        return EXTENDED

    async def stream(self, _: Call[Any, Any], /) -> Events:
        raise NotImplementedError
        yield


async def test_extended_cards_offer_to_resume_streams_as_public_ones_do() -> None:
    async with (
        serve_service(OnlyExtendedCard(), EXTENDED, [interface("GRPC")]) as upstream,
        serve_gateway(upstream.card, select(upstream.card, known=BINDINGS)) as gateway,
        serve(agent()) as hosted,
    ):
        for server, offers in ((upstream, False), (gateway, True), (hosted, True)):
            async with connect(server.card) as peer:
                assert offers_resume(await peer.get_extended_agent_card()) is offers
                assert offers_resume(server.card) is offers
    async with connect(agent()) as peer:
        assert offers_resume(await peer.get_extended_agent_card())


async def test_a_gateway_as_an_application() -> None:
    async with serve(agent(), [interface("GRPC", tenant="acme")]) as upstream:
        app = asgi_gateway(upstream.card, select(upstream.card, known=BINDINGS))
        async with uvicorn_running(app) as base:
            for binding in ("JSONRPC", "HTTP+JSON"):
                async with connect(base, binding=binding) as peer:
                    assert peer.interface is not None
                    assert peer.interface.url.rstrip("/") == base
                    assert (await peer.send("tenant")).text == "tenant=acme"
                    assert [one async for one in peer.stream_text("words")] == ["one ", "two"]
        assert app.draining


async def test_an_application_that_cannot_start(caplog: pytest.LogCaptureFixture) -> None:
    card = hub.AgentCard(name="far", supported_interfaces=[interface("JSONRPC", "http://127.0.0.1:1/")])
    options = ServeOptions(store="sqlite:////nowhere/at/all.db", push_relay="http://127.0.0.1:2/")
    app = asgi_gateway(card, select(card, known=BINDINGS), options=options)
    for _ in range(2):
        with pytest.raises(StoreOpenError):
            await app.start()


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_gateway_does_not_tell_where_the_agent_is(binding: str, unused_tcp_port: int) -> None:
    port = unused_tcp_port
    card = hub.AgentCard(
        name="gone", supported_interfaces=[interface("JSONRPC", f"http://127.0.0.1:{port}/")]
    )
    card.capabilities.streaming = True
    candidates = select(card, known=BINDINGS)
    async with (
        serve_gateway(card, candidates, dial_options=DialOptions(timeout=5)) as server,
        connect(server.card, binding=binding) as peer,
    ):
        with rejected(Reason.UNAVAILABLE) as caught:
            await peer.send("hi")
        assert str(port) not in caught.value.message
        assert "phase" not in caught.value.metadata
        with rejected(Reason.UNAVAILABLE):
            await anext(peer.stream("hi"))


async def test_a_rounded_number_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(agent()):
        with caplog.at_level(logging.WARNING, "a2a_bridge.serving"):
            assert rounded.on_first is not None
            rounded.on_first("message.metadata.big")
    assert "message.metadata.big" in caplog.text


def test_names_of_the_library() -> None:
    assert set(dir(a2a_bridge)) == set(a2a_bridge.__all__)
    for name in a2a_bridge.__all__:
        assert getattr(a2a_bridge, name) is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", a2a_bridge.__version__)
    with pytest.raises(AttributeError, match="nonsense"):
        a2a_bridge.nonsense  # noqa: B018  asking is the point
