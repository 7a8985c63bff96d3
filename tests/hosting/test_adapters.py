"""Agents of objects of other frameworks, by entry points; and what an object without an adapter is told."""

import logging
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from a2a_bridge import Agent, add_to_server, agent, asgi, connect, run, serve
from a2a_bridge.cli.target import BadTargetError, load, parse
from a2a_bridge.core.extras import ADAPTERS
from a2a_bridge.hosting import adapters
from a2a_bridge.hosting.adapters import GROUP, MissingAdapterError, NoAgentError
from a2a_bridge.hosting.sdk.types import comes_from
from a2a_bridge.testing.each import each


class Frame:
    """An object of a framework: a prompt that is repeated."""

    __module__ = "framework.core"

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix


class Derived(Frame):
    """A class of the user."""


def recognises(thing: Any) -> bool:
    return not isinstance(thing, type) and comes_from(thing, "framework")


def agent_of(thing: Any, *, shout: bool = False, **options: Any) -> Agent:
    if thing.prefix == "bad":
        raise ValueError("no prefix is called bad")

    async def answer(text: str) -> str:
        said = f"{thing.prefix} {text}"
        return said.upper() if shout else said

    made = agent(**{"name": "framed", **options})(answer)
    assert isinstance(made, Agent)
    return made


class Breaks:
    def recognises(self, _thing: Any) -> bool:
        raise RuntimeError("no look")

    def agent_of(self, _thing: Any) -> Agent:
        raise AssertionError


class Wrong:
    def recognises(self, thing: Any) -> bool:
        return type(thing).__name__ == "Odd"

    def agent_of(self, _thing: Any) -> Any:
        return "no agent"


class Odd:
    pass


BREAKS, WRONG = Breaks(), Wrong()
POINTS = {
    "framework": "",
    "a-broken": ":BREAKS",
    "b-absent": ":nothing",
    "c-useless": ":Odd",
    "wrong": ":WRONG",
}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The adapters of this module as entry points."""
    points = [EntryPoint(name, f"{__name__}{value}", GROUP) for name, value in POINTS.items()]
    monkeypatch.setattr(adapters, "entry_points", lambda *, group: points if group == GROUP else [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    adapters._adapters.cache_clear()
    before = set(sys.modules)
    yield
    adapters._adapters.cache_clear()
    for name in set(sys.modules) - before:
        del sys.modules[name]


async def said_by(thing: Any) -> str:
    async with connect(thing) as peer:
        return (await peer.send("hello")).text


async def test_an_object_becomes_an_agent_by_its_adapter() -> None:
    made = Agent.of(Derived("well"), name="greeter", shout=True, version="7")
    assert (made.card.name, made.card.version) == ("greeter", "7")
    assert await said_by(made) == "WELL HELLO"
    assert Agent.of(Frame("x")).card.name == "framed"
    assert Agent.of(made) is made


async def test_the_functions_of_the_library_take_such_an_object() -> None:
    assert await said_by(Frame("oh")) == "oh hello"
    async with serve(Frame("so")) as server:
        assert await said_by(f"http://{server.http}") == "so hello"
    assert asgi(Frame("so")) is not None


async def test_an_adapter_that_cannot_be_used_is_logged_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "a2a_bridge.hosting.adapters"):
        assert await said_by(Derived("still")) == "still hello"
    logged = [one.getMessage() for one in caplog.records]
    assert any("b-absent cannot be loaded" in one for one in logged)
    assert any("c-useless has no recognises and agent_of" in one for one in logged)
    assert any("a-broken failed to look at a Derived" in one for one in logged)


class OfAnotherVersion(EntryPoint):
    dist = SimpleNamespace(name=ADAPTERS, version="0.0.1")


def test_an_adapter_of_another_version_is_logged_and_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    point = OfAnotherVersion("framework", __name__, GROUP)
    monkeypatch.setattr(adapters, "entry_points", lambda *, group: [point])
    with pytest.raises(NoAgentError):
        Agent.of(Derived("never"))
    assert f"{ADAPTERS} is version 0.0.1, and" in caplog.text


@each(
    "call, kind, text",
    [
        (lambda: Agent.of(Odd()), TypeError, r"adapter for a value of type Odd made a value of type str"),
        (lambda: Agent.of(Frame("bad")), ValueError, "no prefix is called bad"),
        (
            lambda: Agent.of(agent(name="a")(said_by), shout=True),
            TypeError,
            "is an agent already, and takes no shout",
        ),
        (lambda: Agent.of(3), NoAgentError, "a value of type int is no agent: decorate a function"),
        (
            lambda: Agent.of(said_by),
            NoAgentError,
            r"said_by \(function\) is no agent: decorate it with @agent",
        ),
        (lambda: serve(Frame), NoAgentError, r"Frame \(type\) is no agent"),
        (lambda: run(object()), NoAgentError, "is no agent"),
        (lambda: connect(object()), TypeError, "is no target: give a URL"),
        (lambda: add_to_server(object(), None), NoAgentError, "is no agent"),
    ],
)
def test_an_object_that_is_no_agent_is_told_so(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def known(monkeypatch: pytest.MonkeyPatch, module: str, **names: Any) -> Any:
    """An object of a framework of which nothing but the module's name is here."""
    package = module.partition(".")[0] if not module.startswith("google.") else "google.adk"
    made = ModuleType(package)
    vars(made).update(names)
    monkeypatch.setitem(sys.modules, package, made)
    return type("Thing", (), {"__module__": module})()


FRAMEWORKS = {
    "langgraph.graph.state": "langgraph",
    "pydantic_ai.agent": "pydantic-ai",
    "agents.agent": "openai-agents",
    "google.adk.agents.llm_agent": "google-adk",
    "strands.agent.agent": "strands",
    "claude_agent_sdk.types": "claude-agent",
    "crewai.crew": "crewai",
}

WITHOUT = {
    "agent_framework._agents": r"Microsoft Agent Framework, .*A2AExecutor\(",
}


@each("module, extra", FRAMEWORKS.items())
def test_a_known_framework_without_its_adapter_is_named_with_its_install(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    thing = known(monkeypatch, module, Runner=object)
    with pytest.raises(MissingAdapterError) as caught:
        Agent.of(thing)
    assert caught.value.remedy == f'pip install "a2a-transport-bridge-adapters[{extra}]"'
    assert "the adapter for it is not installed" in str(caught.value)
    assert caught.value.remedy in str(caught.value)


@each("module, text", WITHOUT.items())
def test_a_known_framework_that_has_no_adapter_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, module: str, text: str
) -> None:
    with pytest.raises(NoAgentError, match=text) as caught:
        Agent.of(known(monkeypatch, module, Runner=object))
    assert "pip install" not in str(caught.value)


def test_a_package_of_the_user_called_agents_is_no_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoAgentError):
        Agent.of(known(monkeypatch, "agents.agent"))


FILE = f"""
from {__name__} import Frame, Odd
graph = again = Frame("from a file")
bad = Frame("bad")
number = 3
class Thing: __module__ = "langgraph.graph.state"
thing = Thing()
"""


@each(
    "name, error, found",
    [
        (":graph", "", "framed"),
        ("", "there are several agents in .*: .*:graph, .*:bad", ""),
        (":number", "is an int, not an agent; ", ""),
        (":Frame", "is a type, not an agent; decorate it with @agent", ""),
        (":thing", r'LangGraph.*pip install "a2a-transport-bridge-adapters\[langgraph\]"', ""),
        (":bad", "bad cannot be served, see the error above: ValueError: no prefix is called bad", ""),
    ],
)
def test_serve_takes_an_object_by_its_name(tmp_path: Path, name: str, error: str, found: str) -> None:
    path = tmp_path / "framed.py"
    path.write_text(FILE)
    if not error:
        assert load(parse(f"{path}{name}")).card.name == found
        return
    with pytest.raises(BadTargetError, match=error):
        load(parse(f"{path}{name}"))


def test_serve_takes_the_only_object_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "single.py").write_text(f"from {__name__} import Frame\ngraph = Frame('only')\n")
    assert load(parse(str(tmp_path / "single.py"))).card.name == "framed"
    (tmp_path / "unknown.py").write_text(
        "class Thing: __module__ = 'agent_framework._agents'\nthing = Thing()\n"
    )
    with pytest.raises(BadTargetError, match="Microsoft Agent Framework, which has no adapter here"):
        load(parse(str(tmp_path / "unknown.py")))
