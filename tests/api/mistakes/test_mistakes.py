"""The table of mistakes in programs: each is found when it is made, and its text names the fix."""

from __future__ import annotations

import asyncio
import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest

import a2a_bridge
from a2a_bridge import Agent, agent, connect, ext, interface, serve
from a2a_bridge.bindings import binding as bindings
from tests.patience import PATIENCE

ROWS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("table.toml").read_text("utf-8"))[
    "mistake"
]


async def plain(text: str) -> str:
    return text


@agent
async def good(text: str) -> str:
    """Repeats the text."""
    return text


class Executor:
    async def execute(self, run: Any) -> Any: ...


class Incomplete:
    durable = True


def wraps(service: Any) -> Any:
    return service


def returns_nothing(service: Any) -> None: ...


async def is_async(service: Any) -> Any:
    return service


async def takes_more(text: str, city: Any) -> str:
    return text


async def takes_annotated(text: str, city: int) -> str:
    return text


async def takes_named(text: str, *, city: str) -> str:
    return text


async def takes_bytes(content: bytes) -> bytes:
    return content


async def takes_unknown(value: "Unknown") -> str:  # type: ignore[name-defined]  # noqa: F821, UP037
    return ""


def answers(value: Any) -> Agent:
    async def function(_text: str) -> Any:
        return value

    return agent(function)


async def send(target: Agent, *content: Any) -> None:
    async with connect(target) as peer:
        await peer.send(*content)


async def awaited(context: Any) -> None:
    await context


async def synchronous(context: Any) -> None:
    with context:
        pass


async def opened_twice(context: Any) -> None:
    async with context:
        pass
    async with context:
        pass


async def call_of(method: str, *arguments: Any, **named: Any) -> None:
    """Calls a method of a peer; reads the stream that it may return."""
    async with connect(good) as peer:
        result = getattr(peer, method)(*arguments, **named)
        if inspect.isawaitable(result):
            await result
        else:
            async for _ in result:
                pass


NAMES = {**vars(a2a_bridge), **{name: getattr(a2a_bridge, name) for name in a2a_bridge.__all__}}
NAMES |= {name: getattr(ext, name) for name in ext.__all__} | globals() | {"TlsFiles": bindings.TlsFiles}


async def made(code: str) -> None:
    """Evaluates an expression; enters what it makes, or awaits it."""
    result = eval(code, dict(NAMES))  # noqa: S307  a row of the table beside this file
    if hasattr(result, "__aenter__"):
        async with asyncio.timeout(PATIENCE), result:
            pass
    elif inspect.isawaitable(result):
        async with asyncio.timeout(PATIENCE):
            await result


@pytest.mark.parametrize("row", ROWS, ids=[row["code"] for row in ROWS])
async def test_a_mistake_and_its_text(row: dict[str, Any]) -> None:
    with pytest.raises(Exception) as raised:
        await made(row["code"])
    assert row["raises"] in [one.__name__ for one in type(raised.value).__mro__]
    for part in row["says"]:
        assert part in str(raised.value)
    assert row["raises"] == "AttributeError" or not isinstance(raised.value, AttributeError)


@pytest.mark.parametrize("code", ["serve(plain)", "connect(5)"])
def test_a_mistake_is_found_before_the_context_is_entered(code: str) -> None:
    with pytest.raises(TypeError):
        eval(code, dict(NAMES))  # noqa: S307


@pytest.mark.parametrize("code", ["run(good)", 'run_gateway("http://127.0.0.1:9")'])
async def test_a_server_with_a_loop_of_its_own_is_rejected_where_one_runs(code: str) -> None:
    with pytest.raises(RuntimeError, match=r"as in a notebook.*write `async with serve"):
        eval(code, dict(NAMES))  # noqa: S307


class Holder:
    async def answer(self, text: str) -> str:
        """Answers."""
        return f"{text}, held"


async def test_a_bound_method_can_be_an_agent() -> None:
    async with connect(agent(Holder().answer)) as peer:
        assert (await peer.send("hello")).text == "hello, held"


@pytest.mark.parametrize("name", ["grpc", "Grpc", "http+json", "http_json", "jsonrpc"])
async def test_bindings_are_found_however_they_are_written(name: str) -> None:
    async with serve(good, [interface(name)]) as server:
        (listed,) = server.card.supported_interfaces
        assert listed.protocol_binding in ("GRPC", "HTTP+JSON", "JSONRPC")
        async with connect(server.card, binding=name) as peer:
            assert (await peer.send("hello")).text == "hello"


def test_the_tables_are_large() -> None:
    commands = Path(__file__).parents[2] / "cli" / "mistakes" / "table.toml"
    assert len(ROWS) + len(tomllib.loads(commands.read_text("utf-8"))["mistake"]) >= 120
