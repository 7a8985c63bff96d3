"""The adapter of LangGraph over a stand-in of its interface (fakes/langgraph). Real graphs: `make frameworks`."""

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_bridge import A2AError, Agent, Run, connect, serve
from a2a_bridge.cli.target import load, parse
from a2a_bridge.ext import NoAgentError, ServeOptions, hub
from a2a_bridge.testing.contracts import AdapterContract
from a2a_bridge.testing.each import each

pytestmark = pytest.mark.usefixtures("fakes")


def graph(**changes: Any) -> Any:
    from langgraph.pregel.main import Pregel

    made = Pregel()
    for name, value in changes.items():
        setattr(made, name, value)
    return made


class TestContract(AdapterContract):
    @pytest.fixture
    def agent(self, fakes: Any) -> Agent:
        return Agent.of(graph())


async def test_the_graph_of_the_user_is_unchanged_and_its_checkpointer_is_used() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    without, saver = graph(), InMemorySaver()
    for one in (without, graph(checkpointer=saver)):
        async with connect(Agent.of(one)) as peer:
            await peer.send("hello")
    assert without.checkpointer is None
    assert len(saver.threads) == 1


def test_a_graph_of_a_release_that_is_not_served_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "langgraph-0.6.11.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: langgraph\nVersion: 0.6.11\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TypeError) as rejected:
        Agent.of(graph())
    told = 'langgraph 0.6.11 is not served, 1.0 and later are: pip install "langgraph>=1.0"'
    assert str(rejected.value) == told


async def test_threads_of_a_graph_without_a_checkpointer_are_forgotten_above_the_limit() -> None:
    agent = Agent.of(graph(), conversations=2)
    async with connect(agent) as peer:
        tasks = [(await peer.send("hello")).task for _ in range(3)]
        said = [(await peer.send("recall", context_id=one.context_id)).text for one in tasks[::-1] if one]
    assert said == ["hello,recall", "hello,recall", "recall"]
    assert len(agent.executor.conversations) == 2  # type: ignore[attr-defined]


def around(*modules: str) -> Any:
    """What `create_agent` of LangChain puts around a model: functions of modules, each within the one before."""

    def composed(inner: Any, module: str) -> Any:
        async def wrapped(request: Any, handler: Any) -> Any:
            return await inner(request, handler)

        wrapped.__module__ = module
        return partial(wrapped) if module == "app" else wrapped

    handler = None
    for module in reversed(modules):
        handler = composed(handler, module)
    return handler


@each(
    ("modules", "held"),
    [
        ((), False),
        (("langchain.agents.factory", "langchain_anthropic.middleware"), False),
        (("langchain.agents.factory", "app"), True),
        (("langchain.agents.factory", "langchain.agents.middleware.todo", "langchain_of_mine"), True),
    ],
)
def test_text_is_held_back_where_code_of_the_user_is_around_the_model(
    modules: tuple[str, ...], held: bool
) -> None:
    from a2a_bridge_adapters.langgraph_nodes import last_nodes

    def made(awrap_model_call_handler: Any) -> Any:
        async def model(state: Any) -> Any:
            return awrap_model_call_handler

        return SimpleNamespace(ends=(), runnable=SimpleNamespace(afunc=model))

    found = graph()
    found.builder.nodes = {**found.builder.nodes, "model": made(around(*modules))}
    assert last_nodes(found)[()] == (frozenset() if held else {"model"})


def synchronous() -> Any:
    """A checkpointer as SqliteSaver is one."""

    class Synchronous:
        async def aget_tuple(self, config: Any) -> Any:
            raise NotImplementedError("it does not support async methods")

    return Synchronous()


def test_a_checkpointer_that_waits_or_cannot_answer_yet_is_no_synchronous_one() -> None:
    from a2a_bridge_adapters.langgraph_nodes import is_synchronous

    class Database:
        async def aget_tuple(self, config: Any) -> Any:
            await asyncio.sleep(0)
            raise NotImplementedError

    class WithoutTables:
        async def aget_tuple(self, config: Any) -> Any:
            raise LookupError("no table")

    assert not is_synchronous(Database())
    assert not is_synchronous(WithoutTables())


@each(
    ("changes", "options", "text"),
    [
        ({"interrupt_before_nodes": ("tools",)}, {}, "breakpoints"),
        ({"checkpointer": synchronous()}, {}, "the checkpointer Synchronous of the graph is synchronous"),
        ({}, {"conversations": 0}, "too few"),
        ({}, {"colour": 1}, "colour"),
    ],
)
def test_a_graph_that_cannot_be_served(changes: Any, options: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        Agent.of(graph(**changes), **options)


def test_a_graph_that_is_not_compiled_is_named() -> None:
    thing = type("StateGraph", (), {"__module__": "langgraph.graph.state"})()
    with pytest.raises(NoAgentError, match=r"type StateGraph is an object of LangGraph, .*compile\(\)"):
        Agent.of(thing)


def test_a_file_with_a_builder_and_a_checkpointer_has_one_agent(tmp_path: Path) -> None:
    (tmp_path / "graph.py").write_text(
        "from langgraph.checkpoint.memory import InMemorySaver\n"
        "from langgraph.pregel.main import Pregel\n"
        "saver = InMemorySaver()\n"
        "class StateGraph: __module__ = 'langgraph.graph.state'\n"
        "builder = StateGraph()\n"
        "graph = Pregel(saver)\n"
    )
    found = load(parse(str(tmp_path / "graph.py")))
    assert (found.card.name, found.is_named) == ("agent", False)


async def test_a_graph_without_messages_takes_data_and_gives_data() -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import StateSnapshot

    class Words: ...

    async def astream(given: Any, config: Any, **named: Any) -> Any:
        made._thread(config).messages = given
        yield ("updates", {"measure": {"length": 3}})

    async def aget_state(config: Any) -> Any:
        given = made._thread(config).messages or {}
        return StateSnapshot({**given, "length": len(given.get("words", "")), "hidden": 1})

    made = graph(channels={"words": 0, "length": 0}, output_channels=("words", "length"))
    made.builder.schemas, made.builder.input_schema = {Words: {"words": None}}, Words
    made.checkpointer = InMemorySaver()
    made.astream, made.aget_state = astream, aget_state
    async with connect(Agent.of(made)) as peer:
        for content in ({"words": "abc"}, "abc"):
            task = (await peer.send(content)).task
            assert task is not None
            (part,) = task.artifacts[0].parts
            found = dict(part.data.struct_value.fields)
            assert (found["words"].string_value, found["length"].number_value) == ("abc", 3)
            assert len(found) == 2
        for wrong in ({"other": 1}, [1]):
            with pytest.raises(A2AError) as caught:
                await peer.send(wrong)
            assert caught.value.name == "INVALID_PARAMS"
            assert caught.value.message.startswith("message.parts: ")


async def test_options_of_a_graph() -> None:
    from langchain_core.messages import HumanMessage

    def given(run: Run) -> Any:
        return {"messages": [HumanMessage(f"<{run.text}>")]}

    def turns(state: Any) -> Any:
        return {"turns": len(state["messages"])}

    async def later_given(run: Run) -> Any:
        return given(run)

    async def later_turns(state: Any) -> Any:
        return turns(state)

    for options in ({"input": given, "output": turns}, {"input": later_given, "output": later_turns}):
        agent = Agent.of(graph(), name="desk", nodes=("model",), **options)
        assert agent.card.name == "desk"
        async with connect(agent) as peer:
            task = (await peer.send("hi")).task
            assert task is not None
            assert [part.text for part in task.artifacts[0].parts] == ["heard <hi>"]
            assert task.artifacts[1].parts[0].data.struct_value.fields["turns"].number_value == 2
    async with connect(Agent.of(graph(), nodes=("another",))) as peer:
        assert (await peer.send("hi")).text == ""


def test_the_description_of_a_tool_is_in_the_question() -> None:
    from langgraph.types import Interrupt

    from a2a_bridge_adapters.langgraph import calls_of, resumed
    from a2a_bridge_adapters.questions import Approval

    told = "\n\nTool: delete\nArgs: {'path': 'x'}"
    asks = 'The agent asks to call delete with {"path":"x"}. Answer yes or no.'
    for description, text in (
        ("COSTS 5 EUR", f"COSTS 5 EUR {asks}"),
        (f"COSTS 5 EUR{told}", f"COSTS 5 EUR {asks}"),
        (f"Tool execution requires approval{told}", asks),
        ("", asks),
    ):
        request = {"name": "delete", "args": {"path": "x"}, "description": description}
        # One request for all calls, or one for each.
        for value in ({"action_requests": [request]}, {"type": "tool_approval", **request}):
            asked = Interrupt(value, "1")
            (call,) = calls_of(asked)
            assert call.text == text
            decision = resumed(asked, {"1": Approval(approved=True)})
            assert decision.get("decisions", [decision]) == [{"type": "approve"}]


@each(
    ("allowed", "decisions"),
    [
        (["approve", "reject"], {"approve", "reject"}),
        (["edit"], {"edit"}),
        (["approve", "edit", "reject", "respond"], {"approve", "edit", "reject"}),
        (["respond"], set()),
    ],
)
def test_a_review_decides_what_a_caller_may(allowed: list[str], decisions: set[str]) -> None:
    from langgraph.types import Interrupt

    from a2a_bridge_adapters.langgraph import calls_of, resumed

    request = {"name": "delete", "args": {"path": "x"}}
    review = {"action_name": "delete", "allowed_decisions": allowed}
    asked = Interrupt({"action_requests": [request], "review_configs": [review]}, "1")
    (call,) = calls_of(asked)
    assert (call.decisions, call.approval) == (decisions, bool(decisions))
    if not call.approval:
        assert resumed(asked, {"1": "done"}) == {"decisions": [{"type": "respond", "message": "done"}]}


@pytest.mark.process
def test_recognition_imports_no_framework() -> None:
    program = (
        "import sys, a2a_bridge_adapters.frameworks as f; f.LANGGRAPH.recognises(1);"
        "print([one for one in ('langgraph', 'langchain_core', 'pydantic_ai') if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


async def test_a_turn_that_is_cancelled_while_it_waits_leaves_the_conversation_free() -> None:
    async with connect(Agent.of(graph())) as peer:
        first = (await peer.send("hello")).task
        assert first is not None
        slow = (await peer.send("slow", context_id=first.context_id, return_immediately=True)).task
        waiting = (await peer.send("hello", context_id=first.context_id, return_immediately=True)).task
        assert slow is not None
        assert waiting is not None
        for one in (waiting, slow):
            await peer.cancel_task(hub.CancelTaskRequest(id=one.id))
        async with asyncio.timeout(10):
            assert (await peer.send("recall", context_id=first.context_id)).text == "hello,slow,recall"


async def test_a_question_outlives_the_process_with_a_durable_checkpointer(tmp_path: Path) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()  # as a database would be: what both processes share
    asked: Any = None
    for checkpointer, state, text in (
        (saver, "input-required", ""),
        (saver, "completed", "done: deleted x"),
        (None, "failed", "The question of this task is no longer open"),
    ):
        options = ServeOptions(store=f"sqlite:///{tmp_path / 'tasks.db'}")
        async with (
            serve(Agent.of(graph(checkpointer=checkpointer)), options=options) as server,
            connect(server.card) as peer,
        ):
            if asked is None:
                asked = (await peer.send("approve")).task
                second = (await peer.send("approve")).task
                assert asked is not None
                continue
            reply = await peer.send("yes", task=asked)
            assert (reply.state, reply.text.partition(":")[0] if state == "failed" else reply.text) == (
                state,
                text,
            )
            asked = second
