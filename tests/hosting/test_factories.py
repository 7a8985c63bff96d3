"""Factories of agents: what is taken, in which loop and order it is opened and closed, and what is told of others."""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import pytest

from a2a_bridge import Agent, add_to_server, agent, asgi, connect, serve
from a2a_bridge.agents import hosted, serve_agents
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.ext import AgentFactoryError, NoAgentError
from a2a_bridge.hosting.hosted_agent import TAKEN
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE

#: what the factories below did, in this order
done: list[str] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    done.clear()


@agent
async def desk(text: str) -> str:
    """Answers."""
    return f"desk {text}"


def opens(name: str = "open") -> Agent:
    """Notes that there is a running loop, as a checkpointer of LangGraph asks for one."""
    done.append(f"{name} {asyncio.get_running_loop().is_running()}")
    return desk


def plain() -> Any:
    return opens()


async def coroutine() -> Agent:
    await asyncio.sleep(0)
    return opens()


def generator() -> Iterator[Agent]:
    yield opens()
    done.append("closed")


async def async_generator() -> AsyncIterator[Agent]:
    try:
        yield opens()
    finally:
        await asyncio.sleep(0)
        done.append("closed")


@contextmanager
def manager() -> Iterator[Agent]:
    yield opens()
    done.append("closed")


@asynccontextmanager
async def async_manager() -> AsyncIterator[Agent]:
    yield opens()
    done.append("closed")


class Pool:
    """A context manager that is no function."""

    async def __aenter__(self) -> Agent:
        return opens()

    async def __aexit__(self, *raised: object) -> None:
        done.append("closed")

    def method(self) -> Agent:
        return opens()


def made_with(config: Any) -> Agent:
    done.append(str(config))
    return opens()


def annotated(settings: "RunnableConfig") -> Agent:  # type: ignore[name-defined]  # noqa: F821
    done.append(str(settings))
    return opens()


async def gives_a_manager() -> AbstractAsyncContextManager[Agent]:
    return async_manager()


def another() -> Agent:
    return Agent.of(generator)


CLOSED = ["open True", "closed"]
CONFIG = [str({"configurable": {}}), "open True"]


@each(
    "make, expected",
    [
        (lambda: plain, ["open True"]),
        (lambda: coroutine, ["open True"]),
        (coroutine, ["open True"]),
        (lambda: generator, CLOSED),
        (generator, CLOSED),
        (lambda: async_generator, CLOSED),
        (lambda: manager, CLOSED),
        (lambda: async_manager, CLOSED),
        (async_manager, CLOSED),
        (Pool, CLOSED),
        (lambda: Pool().method, ["open True"]),
        (lambda: made_with, CONFIG),
        (lambda: annotated, CONFIG),
        (lambda: functools.partial(opens, "partial"), ["partial True"]),
        (lambda: functools.cache(plain), ["open True"]),
        (lambda: gives_a_manager, CLOSED),
        (lambda: another, CLOSED),
    ],
)
async def test_a_factory_is_opened_in_the_loop_and_closed(
    make: Callable[[], Any], expected: list[str]
) -> None:
    done.clear()
    async with connect(make()) as peer:
        assert (await peer.send("hello")).text == "desk hello"
        assert "closed" not in done
    assert done == expected


def test_the_first_row_that_fits_decides() -> None:
    """An agent, an executor and an object of an adapter are what they are, also if they could be opened."""

    class Both(Pool):
        def __call__(self) -> Agent:
            raise AssertionError

    assert Agent.of(desk) is desk
    assert [one.fits(desk) for one in TAKEN].index(True) == 0
    assert [one.fits(plain) for one in TAKEN].index(True) == 3
    # An object that can be called and entered is entered, and never called.
    assert [one.fits(Both()) for one in TAKEN].index(True) == 4
    assert not any(one.fits(Pool) for one in TAKEN)


async def test_an_agent_of_a_factory_has_its_card_when_it_is_open() -> None:
    made = Agent.of(plain, name="support", description="Helps.", version="3")
    assert not made.is_open
    assert done == []
    with pytest.raises(AttributeError, match=r"the agent of plain\(\) has no card before it is open"):
        _ = made.card
    async with made.open() as opened:
        card = opened.card
        assert (card.name, card.description, card.version) == ("support", "Helps.", "3")
    assert desk.card.name == "desk"
    assert repr(made) == "<Agent of plain()>"


def test_the_server_of_an_application_takes_an_open_agent_only() -> None:
    with pytest.raises(
        TypeError, match=r"<Agent of plain\(\)> has to be opened and closed.*Agent\.of\(…\)\.open"
    ):
        add_to_server(plain, None)


async def test_a_server_opens_before_it_listens_and_closes_after_its_drain() -> None:
    entered, end = asyncio.Event(), asyncio.Event()

    @agent(task=True)
    async def slow(_text: str) -> str:
        entered.set()
        await end.wait()
        done.append("answered")
        return "slow"

    async def factory() -> AsyncIterator[Agent]:
        done.append("open")
        yield slow
        done.append("closed")

    async with asyncio.timeout(PATIENCE), serve(factory, options=ServeOptions(grace=PATIENCE)) as server:
        assert done == ["open"]
        async with connect(f"http://{server.http}") as peer:
            sending = asyncio.create_task(peer.send("?"))
            await entered.wait()
            draining = asyncio.create_task(server.drain(PATIENCE))
            end.set()
            assert (await sending).text == "slow"
            await draining
        assert done == ["open", "answered"]
    assert done == ["open", "answered", "closed"]


async def test_an_application_opens_at_its_startup_and_closes_at_its_shutdown() -> None:
    async def lifespan(application: Any) -> list[str]:
        received = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
        sent: list[str] = []

        async def receive() -> Any:
            done.append("event")
            return next(received)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await application({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
        return sent

    application = asgi(async_generator)
    assert await lifespan(application) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert done == ["event", "open True", "event", "closed"]


async def test_the_agents_of_a_server_that_does_not_start_are_closed() -> None:
    is_open = asyncio.Event()

    async def failing() -> Agent:
        await is_open.wait()
        raise ValueError("no database")

    def noting() -> AbstractAsyncContextManager[Agent]:
        is_open.set()
        return async_manager()

    options = ServeOptions()
    entries = [
        hosted("first", Agent.of(noting), options),
        hosted("second", Agent.of(failing), options),
    ]
    with pytest.raises(AgentFactoryError, match=r"failing\(\) failed: ValueError: no database"):
        async with asyncio.timeout(PATIENCE), serve_agents(entries):
            pass
    assert done == CLOSED


def nothing() -> Iterator[Agent]:
    yield from ()


def twice() -> Iterator[Agent]:
    yield desk
    yield desk


def raises() -> Agent:
    raise KeyError("API_KEY")


async def closes_badly() -> AsyncIterator[Agent]:
    yield desk
    raise OSError("gone")


def ends() -> Agent:
    raise SystemExit(3)


@contextmanager
def opened_before() -> Iterator[Any]:
    yield opens()
    done.append("closed")


async def fails_inside() -> AsyncIterator[Agent]:
    with opened_before():
        raise ValueError("inside")
        yield desk


@each(
    "factory, text",
    [
        (raises, r"raises\(\) failed: KeyError: 'API_KEY'"),
        (ends, r"ends\(\) failed: SystemExit: 3"),
        (fails_inside, r"fails_inside\(\) failed: ValueError: inside"),
        (nothing, r"nothing\(\) yields nothing"),
        (twice, r"twice\(\) yields more than once"),
        (closes_badly, r"closes_badly\(\) failed when it was closed: OSError: gone"),
        (lambda: None, r"<lambda>\(\) returned None, and no agent: it may lack `return`"),
        (lambda: "hi", r"returned a str, and no agent: give a function that answers messages to @agent"),
        (lambda: (desk, 3), r"returned a tuple, and no agent: give its agent alone"),
        (lambda: test_the_first_row_that_fits_decides, r"returned the function .*: call it, or decorate it"),
        (lambda: {"a": desk}, r"returned a dict, and no agent"),
        (lambda: Pool, r"returned a type, and no agent: decorate its method"),
    ],
)
async def test_a_factory_without_an_agent_is_named(factory: Any, text: str) -> None:
    with pytest.raises(AgentFactoryError, match=text) as caught:
        async with connect(factory):
            pass
    assert isinstance(caught.value.__cause__, BaseException) == ("failed" in text)


async def test_the_error_of_a_server_outweighs_one_of_closing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(ValueError, match="of the test"):
        async with connect(closes_badly):
            raise ValueError("of the test")
    assert "closes_badly() failed when it was closed" in caplog.text


async def test_a_start_that_is_cancelled_closes_what_is_open() -> None:
    begun = asyncio.Event()

    async def hangs() -> AsyncIterator[Agent]:
        with opened_before():
            begun.set()
            await asyncio.Event().wait()
            yield desk

    async def start() -> None:
        async with connect(hangs):
            pass

    starting = asyncio.create_task(start())
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def undecorated(text: str) -> str:
    return text


def test_functions_with_arguments_are_no_factories() -> None:
    for one in (undecorated, lambda one, two: None, lambda *, config: None):
        with pytest.raises(NoAgentError, match="decorate it with @agent"):
            Agent.of(one)
