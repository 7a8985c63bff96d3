"""A gateway as runtime composes it, warnings it gives once, and the README's examples as they stand there."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

import a2a_bridge
from a2a_bridge import connect, interface, serve
from a2a_bridge.bindings import DialOptions
from a2a_bridge.cards import select
from a2a_bridge.codec import rounded
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.runtime import serve_gateway
from tests.runtime.scene import BINDINGS, PATIENCE, agent, closed_port

README = Path(__file__).parents[2] / "README.md"


def code(containing: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (found,) = [block for block in blocks if containing in block]
    return str(found)


@pytest.fixture
def weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "weather.py").write_text(code("async def weather"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "weather", raising=False)
    namespace: dict[str, Any] = {}
    exec("from weather import weather", namespace)  # noqa: S102  it does not exist for tools
    yield namespace["weather"]
    sys.modules.pop("weather", None)


async def test_serving_as_the_readme_does(weather: Any) -> None:
    text = code("await forever").replace(":8080", f":{closed_port()}").replace(":50051", f":{closed_port()}")
    body = text.replace("await forever", "await used(server)").replace("]):", "]) as server:")
    wrapped = "async def program():\n" + "\n".join(f"    {line}" for line in body.splitlines())
    heard: dict[str, str] = {}

    async def used(server: Any) -> None:
        for one in server.card.supported_interfaces:
            async with connect(one) as peer:
                heard[one.protocol_binding] = (await peer.send("Oslo")).text

    namespace: dict[str, Any] = {"weather": weather, "used": used}
    exec(wrapped, namespace)  # noqa: S102  the README's own text
    async with asyncio.timeout(PATIENCE):
        await namespace["program"]()
    assert heard == {"JSONRPC": "looking… Oslo: 21 °C", "GRPC": "looking… Oslo: 21 °C"}


async def test_importing_as_the_readme_does(weather: Any) -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    namespace: dict[str, Any] = {"my_grpc_aio_server": server}
    exec(code("add_to_server(weather"), namespace)  # noqa: S102  the README's own text
    await server.start()
    try:
        async with asyncio.timeout(PATIENCE), connect(f"127.0.0.1:{port}") as peer:
            assert (await peer.send("Oslo")).text == "looking… Oslo: 21 °C"
    finally:
        await server.stop(0)
    assert [route.path for route in namespace["app"].routes][-1] == "/agents/weather"


@pytest.mark.parametrize("spoken", BINDINGS)
async def test_an_agent_behind_a_gateway(spoken: str) -> None:
    async with serve(agent(), [interface(spoken, tenant="acme")]) as upstream:
        candidates = select(upstream.card, known=BINDINGS)
        async with serve_gateway(upstream.card, candidates) as server:
            assert [one.protocol_binding for one in server.card.supported_interfaces] == list(BINDINGS)
            for binding in BINDINGS:
                async with connect(server.card, binding=binding) as peer:
                    assert (await peer.send("tenant")).text == "tenant=acme"
                    assert [one async for one in peer.stream_text("words")] == ["one ", "two"]
                    extended = await peer.get_extended_agent_card()
                    assert extended.supported_interfaces == server.card.supported_interfaces


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_gateway_does_not_tell_where_the_agent_is(binding: str) -> None:
    port = closed_port()
    card = hub.AgentCard(
        name="gone", supported_interfaces=[interface("JSONRPC", f"http://127.0.0.1:{port}/")]
    )
    card.capabilities.streaming = True
    candidates = select(card, known=BINDINGS)
    async with (
        serve_gateway(card, candidates, dial_options=DialOptions(timeout=5)) as server,
        connect(server.card, binding=binding) as peer,
    ):
        with pytest.raises(A2AError) as caught:
            await peer.send("hi")
        assert caught.value.reason is Reason.UNAVAILABLE
        assert str(port) not in caught.value.message
        assert "phase" not in caught.value.metadata
        with pytest.raises(A2AError) as streamed:
            await anext(peer.stream("hi"))
        assert streamed.value.reason is Reason.UNAVAILABLE


async def test_a_rounded_number_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(agent()):
        with caplog.at_level(logging.WARNING, "a2a_bridge.runtime"):
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
