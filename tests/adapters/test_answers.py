"""The answer of a task is the answer of the framework, whatever was streamed before: over stand-ins of the
frameworks. `make frameworks` compares real agents with their plain calls.
"""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_bridge import Agent, Run, connect
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.lifecycle import add_artifact
from a2a_bridge.ext import hub
from a2a_bridge.testing.each import each
from a2a_bridge_adapters.content import Answer

pytestmark = pytest.mark.usefixtures("fakes")

#: what the stand-ins stream for the message `chunks`
STREAMED = "one two three"
TEXTS = st.one_of(
    st.text("ab \n", max_size=6), st.sampled_from([STREAMED, f"{STREAMED} four", "one two ", f" {STREAMED}"])
)


async def answered(thing: Any, **options: Any) -> tuple[str, str, str]:
    """The state, the text of the task, and all text that callers got."""
    told = ""
    async with connect(Agent.of(thing, **options)) as peer:
        async for event in peer.stream("chunks"):
            if event.HasField("artifact_update"):
                told += "".join(part.text for part in event.artifact_update.artifact.parts)
            elif event.HasField("task"):
                task_id = event.task.id
        task = await peer.get_task(hub.GetTaskRequest(id=task_id))
    texts = [part.text for one in task.artifacts for part in one.parts]
    return hub.TaskState.Name(task.status.state), "".join(texts), told


def graph_of(finals: Sequence[str], *, guarded: bool) -> Any:
    from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.pregel.main import Pregel, StateSnapshot

    made = Pregel(InMemorySaver())
    if guarded:
        made.builder.edges.add(("model", "tools"))
        made.builder.branches = {}
    before = [HumanMessage("hi", id="0")]
    # The first message is the one that was streamed, with another text.
    after = [*before, *(AIMessage(text, id=f"message-{place}") for place, text in enumerate(finals))]

    async def astream(given: Any, config: Any, **named: Any) -> Any:
        yield ("values", {"messages": before})
        about = {"langgraph_node": "model", "langgraph_checkpoint_ns": "model:1"}
        for word in ("one ", "two ", "three"):
            yield ("messages", (AIMessageChunk(word, id="message-0"), about))
        yield ("updates", {"model": {"messages": after[1:]}})
        yield ("values", {"messages": after})

    async def aget_state(config: Any) -> Any:
        return StateSnapshot({"messages": after})

    made.astream, made.aget_state = astream, aget_state  # type: ignore[method-assign]
    return made


def openai_of(finals: Sequence[str], *, guarded: bool) -> Any:
    import agents

    made = agents.Agent(outputs={STREAMED: "".join(finals)})
    made.output_guardrails = ["passes"] if guarded else []
    return made


def pydantic_of(finals: Sequence[str], *, guarded: bool) -> Any:
    import pydantic_ai

    made = pydantic_ai.Agent(outputs={STREAMED: "".join(finals)})
    made._output_validators = ["passes"] if guarded else []
    return made


def adk_of(finals: Sequence[str], *, guarded: bool) -> Any:
    from google.adk.agents import BaseAgent
    from google.adk.events import Event
    from google.genai import types

    def event(text: str, author: str = "scripted", **members: Any) -> Any:
        return Event(author, types.Content("model", [types.Part(text=text)]), **members)

    streamed = [event(word, partial=True) for word in ("one ", "two ", "three")]
    ends = [event(text, f"author-{place}" if place else "scripted") for place, text in enumerate(finals)]
    callback = {"after_model_callback": object()} if guarded else {}
    return BaseAgent(events={"chunks": [*streamed, *ends]}, **callback)


def strands_of(finals: Sequence[str], *, guarded: bool) -> Any:
    from strands.agent import Agent as Scripted

    made = Scripted(outputs={STREAMED: ["".join(finals)]})
    made.callbacks = [lambda event: None] if guarded else []
    return made


def claude_of(finals: Sequence[str], *, guarded: bool) -> Any:
    from claude_agent_sdk import ClaudeAgentOptions

    hooks = {"MessageDisplay": []} if guarded else None
    return ClaudeAgentOptions(outputs={STREAMED: "".join(finals)}, hooks=hooks)


def crew_of(finals: Sequence[str], *, guarded: bool) -> Any:
    from crewai.crew import Crew, Task

    task = Task(description=STREAMED, guardrail="passes" if guarded else None)
    return Crew(tasks=[task], outputs={STREAMED: "".join(finals)})


FRAMEWORKS: dict[str, Callable[..., Any]] = {
    "langgraph": graph_of,
    "openai-agents": openai_of,
    "pydantic-ai": pydantic_of,
    "google-adk": adk_of,
    "strands": strands_of,
    "claude-agent": claude_of,
    "crewai": crew_of,
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(finals=st.lists(TEXTS, max_size=3), guarded=st.booleans(), stream=st.sampled_from([None, True, False]))
def test_the_text_of_a_task_is_that_of_the_framework(
    framework: str, finals: list[str], guarded: bool, stream: bool | None
) -> None:
    made = FRAMEWORKS[framework](finals, guarded=guarded)
    state, text, told = asyncio.run(answered(made, stream=stream))
    assert (state, text) == ("TASK_STATE_COMPLETED", "".join(finals))
    if stream is False or (stream is None and guarded):
        assert told == text


@each("stream", [None, True])
async def test_a_turn_that_a_guardrail_stops_keeps_no_text(stream: bool | None) -> None:
    import agents

    thing = agents.Agent()
    thing.output_guardrails = ["trips"]
    state, text, told = await answered(thing, stream=stream)
    assert (state, text) == ("TASK_STATE_REJECTED", "")
    assert bool(told) == bool(stream)


async def test_text_is_told_once_the_guardrails_of_the_input_have_passed() -> None:
    import agents

    thing = agents.Agent()
    thing.input_guardrails = ["slow"]
    assert (await answered(thing))[1:] == (STREAMED, STREAMED)


@each("stream", [None, True])
async def test_a_turn_that_fails_keeps_no_text_that_its_guard_may_have_stopped(stream: bool | None) -> None:
    thing = graph_of(["a"], guarded=True)
    given = thing.astream

    async def astream(*arguments: Any, **named: Any) -> Any:
        async for item in given(*arguments, **named):
            yield item
        raise RuntimeError("blocked")

    thing.astream = astream
    state, text, told = await answered(thing, stream=stream)
    assert (state, text) == ("TASK_STATE_FAILED", "")
    assert bool(told) == bool(stream)


PLACES = st.sampled_from(["left", "right"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), PLACES, st.sampled_from(["1", "2"]), TEXTS),
        st.tuples(st.just("keep"), PLACES, st.lists(TEXTS, max_size=2)),
    ),
    max_size=12,
)


@given(steps=STEPS, finals=st.lists(TEXTS, max_size=4), guarded=st.booleans(), fails=st.booleans())
def test_an_answer_ends_as_it_is_settled(
    steps: list[Any], finals: list[str], guarded: bool, fails: bool
) -> None:
    task = hub.Task(id="t")
    run = Run(hub.SendMessageRequest(), CallContext(), "t", "c")
    for stream in (None, True):
        del task.artifacts[:]
        answer = Answer(run, stream)
        for kind, place, *given_ in steps:
            if kind == "text":
                made = answer.text(given_[0], given_[1], place, guarded=guarded)
            else:
                made = answer.keep(place, *given_[0], guarded=guarded)
            for event in made:
                add_artifact(task, event)
        if stream is None and guarded:
            assert not task.artifacts
        for event in answer.failed() if fails and guarded else answer.settle(*finals):
            add_artifact(task, event)
        texts = ["".join(part.text for part in one.parts) for one in task.artifacts]
        assert "".join(texts) == ("" if fails and guarded else "".join(finals))
        assert all(one.parts for one in task.artifacts)


def test_the_nodes_with_which_a_graph_ends() -> None:
    from a2a_bridge_adapters.langgraph_nodes import last_nodes

    def builder(*edges: tuple[str, str], **members: Any) -> Any:
        nodes = dict.fromkeys((name for edge in edges for name in edge), SimpleNamespace(ends=()))
        given = {"nodes": nodes, "edges": set(edges), "waiting_edges": set(), "branches": {}, **members}
        graph = SimpleNamespace(builder=SimpleNamespace(**given))
        graph.get_subgraphs = lambda *, recurse: [("inner", SimpleNamespace(builder=None))]
        return last_nodes(graph)

    open_branch = {"a": {"route": SimpleNamespace(ends=None)}}
    commands = {"a": SimpleNamespace(ends=("b", "__end__")), "b": SimpleNamespace(ends=())}
    review = "HumanInTheLoopMiddleware.after_model"
    for found, wanted in (
        (builder(("a", "b"), ("b", "__end__")), {"b"}),
        (builder(("a", "b")), {"b"}),
        (builder(("a", "b"), branches=open_branch), {"a", "b"}),
        (builder(nodes=commands), {"a", "b"}),
        (builder(("a", review), (review, "__end__")), {"a", review}),
        (builder(("a", review), (review, "b")), {"b"}),
        (
            builder(
                ("c", "a"), waiting_edges={(("a", "b"), "d")}, nodes=dict.fromkeys("abcd", commands["b"])
            ),
            {"d"},
        ),
    ):
        assert found[()] - {"__end__"} == wanted
        assert found["inner",] == frozenset()
