"""Functions of the application that end a process: they fail their call, and the server goes on."""

import pytest

from a2a_bridge import Reason, agent, connect, serve
from a2a_bridge.cards import interface
from a2a_bridge.ext import HostOptions, Presented, Principal, ServeOptions
from tests.rejections import rejected
from tests.resume.scene import BINDINGS


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_authentication_that_ends_the_process_fails_the_call_only(
    binding: str, error: type[BaseException]
) -> None:
    raised: list[BaseException] = [error("a secret")]

    async def authenticate(_: Presented) -> Principal:
        if raised:
            raise raised.pop()
        return Principal("ann")

    @agent
    async def hello(_: str) -> str:
        return "hello"

    options = ServeOptions(host=HostOptions(authenticate=authenticate))
    async with (
        serve(hello, [interface(binding, "", version="1.0")], options=options) as server,
        connect(server.card) as peer,
    ):
        with rejected(Reason.INTERNAL_ERROR) as caught:
            await peer.send("x")
        assert "secret" not in str(caught.value)
        assert (await peer.send("x")).text == "hello"
