"""The adapter of CrewAI over a stand-in of its interface (fakes/crewai). Real crews and flows: `make frameworks`."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_bridge import Agent, connect
from a2a_bridge.ext import A2AError, NoAgentError, Reason, hub
from a2a_bridge.testing.adapter_contract import callers
from a2a_bridge.testing.each import each
from tests.frameworks.adapters import CHECKS, keep
from tests.frameworks.programs import ADAPTED
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("fakes")

(LACKS,) = (one.lacks for one in ADAPTED if one.name == "crewai")
#: a file that the stand-in does not make
OTHERS = [name for name in CHECKS if name not in (*LACKS, "a file of the agent")]


def flow(**fields: Any) -> Any:
    from crewai import Flow

    return Flow(**fields)


def crew(**members: Any) -> Any:
    from crewai import Crew
    from crewai.crew import Task

    tasks = members.pop("tasks", [{}])
    return Crew(tasks=[Task(**one) for one in tasks], **members)


@each("name", OTHERS)
async def test_a_flow_keeps_the_contract(name: str) -> None:
    async with callers(Agent.of(flow(), stream=True)) as both:
        await keep(name, *both)


def test_an_object_that_cannot_be_served_is_named() -> None:
    from crewai.crew import Task
    from crewai.flow.runtime import Flow

    class Odd(Flow):
        def __init__(self, needed: int) -> None:
            super().__init__()

    with pytest.raises(TypeError, match="a Task cannot be served: give a Crew or a Flow"):
        Agent.of(Task())
    with pytest.raises(NoAgentError, match="give a Crew, or a Flow"):
        Agent.of(Flow)
    with pytest.raises(TypeError, match="needs a Odd of its own: give flow_factory="):
        Agent.of(Odd(1))
    assert Agent.of(Odd(1), flow_factory=lambda: Odd(1)).card.name == "Odd"


def test_the_card_has_the_agents_of_a_crew() -> None:
    clerk = SimpleNamespace(role="clerk", goal="Keeps the desk.")
    card = Agent.of(crew(agents=[clerk])).card
    assert (card.name, [(one.name, one.description) for one in card.skills]) == (
        "agent",
        [("clerk", "Keeps the desk.")],
    )
    assert Agent.of(crew(name="desk")).card.name == "desk"
    assert (Agent.of(flow()).card.name, Agent.of(flow(name="desk")).card.name) == ("Flow", "desk")


@each(
    ("description", "content", "answer"),
    [
        ("{message}", ["a ", "b"], "a b"),
        ("on {topic}", ["tea"], "on tea"),
        ("{topic} in {place}", [{"topic": "tea", "place": "Oslo"}], "tea in Oslo"),
        ("{message} on {topic}", ["more", {"topic": "tea"}], "more on tea"),
        ("{message}", [{"a": 1}], '{"a":1}'),
        ("{history}|{message}", ["a"], "|a"),
        ("{history}|{message}", ["a", {"history": "b"}], '|a{"history":"b"}'),
        ("{history}|{topic}", [{"topic": "a", "history": "b"}], "|a"),
        ('{message} as {"a": 1}', ["a"], 'a as {"a": 1}'),
    ],
)
async def test_the_inputs_of_a_crew(description: str, content: list[Any], answer: str) -> None:
    async with connect(Agent.of(crew(tasks=[{"description": description}]))) as peer:
        assert (await peer.send(*content)).text == answer


@each(
    ("description", "content", "reason"),
    [
        ("{topic} in {place}", ["tea"], Reason.INVALID_PARAMS),
        ("{topic}", [{"other": 1}, hub.Part(raw=b"a", filename="a.txt")], Reason.CONTENT_TYPE_NOT_SUPPORTED),
    ],
)
async def test_inputs_that_are_rejected(description: str, content: list[Any], reason: Reason) -> None:
    async with connect(Agent.of(crew(tasks=[{"description": description}]))) as peer:
        with pytest.raises(A2AError) as caught:
            await peer.send(*content)
    assert caught.value.reason is reason


async def test_a_caller_sets_no_state_of_a_flow_and_the_id_is_that_of_the_conversation() -> None:
    states: dict[str, Any] = {}
    async with callers(Agent.of(flow(persistence=states))) as both:
        for caller in both:
            await caller.say({"id": "another", "users": ["x"]}, where="c")
            assert (await caller.say("recall", where="c")).text.endswith(",recall")
    assert len(states) == 2
    for name, state in states.items():
        assert (len(name), state["id"], len(state["users"])) == (64, name, 2)


async def test_no_conversation_sees_the_state_of_another() -> None:
    first: dict[str, Any] = {"users": ["before"]}
    async with callers(Agent.of(flow(initial_state=first))) as (ann, bob):
        await ann.say("mine", where="c")
        assert (await bob.say("recall", where="c")).text == "before,recall"
    assert first == {"users": ["before"]}


@each(
    ("text", "left"),
    [("crash", "a,recall"), ("slow", "a,recall"), ("question", "a,question,recall")],
)
async def test_a_turn_without_an_end_leaves_nothing_since_its_last_question(text: str, left: str) -> None:
    async with callers(Agent.of(flow(), stream=True)) as (ann, _):
        await ann.say("a", where="c")
        turn = await ann.say(text, where="c", cancel_at="begun")
        if text == "question":
            await ann.cancel(turn.task_id)
        assert (await ann.say("recall", where="c")).text == left


async def test_a_method_that_runs_on_after_a_cancellation_asks_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from crewai.flow.runtime import Flow

    from a2a_bridge_adapters import own_loop

    goes_on, ended = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    class Blocking(Flow):
        async def _run(self) -> Any:
            if self.state["message"] == "block":
                yield SimpleNamespace(type="llm_stream_chunk", content="begun", data={})
                await asyncio.to_thread(self.block)
            async for output in super()._run():
                yield output

        def block(self) -> None:
            goes_on.wait(PATIENCE)
            try:
                self.ask("may I?")
            except asyncio.CancelledError as error:
                raised.append(error)
            ended.set()

    monkeypatch.setattr(own_loop, "GRACE", 0)
    async with callers(Agent.of(Blocking(), stream=True)) as (ann, _):
        assert (await ann.say("block", where="c", cancel_at="begun")).state == "canceled"
        await ann.say("a", where="c")
        goes_on.set()
        assert await asyncio.to_thread(ended.wait, PATIENCE)
        assert len(raised) == 1
        assert (await ann.say("recall", where="c")).text == "a,recall"


def test_a_method_that_runs_on_after_the_server_asks_nobody() -> None:
    from a2a_bridge_adapters.crewai import _Caller, _History

    loop = asyncio.new_event_loop()
    loop.close()
    turn: Any = SimpleNamespace(abandoned=False)
    with pytest.raises(asyncio.CancelledError):
        _Caller(turn, loop, lambda _: None, _History).ask("may I?")


async def test_inputs_are_made_from_the_run() -> None:
    async def made(run: Any) -> Any:
        return {"message": f"{run.text}!"}

    async with connect(Agent.of(flow(), inputs=made)) as peer:
        assert (await peer.send("a")).text == "heard a!"
    async with connect(Agent.of(crew(), inputs=lambda run: {"message": "b"})) as peer:
        assert (await peer.send("a")).text == "b"


async def test_a_crew_hears_of_the_turns_before() -> None:
    async with callers(Agent.of(crew(tasks=[{"description": "{message}[{history}]"}]))) as (ann, bob):
        await ann.say("a", where="c")
        assert (await ann.say("fail", where="c")).state == "failed"
        assert (await ann.say("b", where="c")).text == "b[User: a\nAgent: a[]]"
        assert (await bob.say("b", where="c")).text == "b[]"


@each("threads", [False, True])
async def test_human_input_asks_until_the_caller_is_content(threads: bool) -> None:
    async with callers(Agent.of(crew(tasks=[{"human_input": True}], threads=threads))) as (ann, _):
        asked = await ann.say("a b")
        assert (asked.state, asked.text, asked.calls[0]["question"]["result"]) == (
            "input_required",
            "",
            "a b",
        )
        again = await ann.say("shorter", task=asked.task_id)
        assert (again.state, again.calls[0]["question"]["result"]) == ("input_required", "changed: shorter")
        done = await ann.say("Yes.", task=asked.task_id)
        assert (done.state, done.text) == ("completed", "changed: shorter")


@each(
    ("members", "parts"),
    [
        ({"json_dict": {"a": 1}, "tasks": [{"output_json": dict}]}, [{"a": 1}]),
        ({"pydantic": {"a": 2}, "tasks": [{"output_pydantic": dict}]}, [{"a": 2}]),
        ({"tasks": [{"id": "1", "description": "first"}, {"id": "2"}]}, ["go"]),
    ],
)
async def test_the_output_of_a_crew(members: Any, parts: list[Any]) -> None:
    from a2a_bridge_adapters.content import json_of

    async with callers(Agent.of(crew(**members))) as (ann, _):
        turn = await ann.say("go")
    told = [part for part in turn.parts if part.text or part.HasField("data")]
    found = [json_of(part) if part.HasField("data") else part.text for part in told]
    assert found == parts


async def test_feedback_and_results_of_a_flow() -> None:
    async with callers(Agent.of(flow())) as (ann, _):
        asked = await ann.say("feedback")
        question = asked.calls[0]["question"]
        assert question == {"question": '{"a":1}\n\ngood?', "result": {"a": 1}, "outcomes": ["yes", "no"]}
        assert (await ann.say("yes", task=asked.task_id)).text == "yes"
        assert (await ann.say("pending")).state == "failed"
        nothing = await ann.say("nothing")
        assert (nothing.state, nothing.text) == ("completed", "")


def test_the_console_is_asked_outside_of_a_turn() -> None:
    from crewai.flow.flow_config import flow_config

    Agent.of(flow())
    assert flow_config.input_provider.request_input("a", None) == "console: a"
    context = SimpleNamespace(message="b")
    assert flow_config.hitl_provider.request_feedback(context, None) == "console: b"


@each(
    ("member", "guarded"),
    [
        ({}, False),
        ({"guardrail": print}, True),
        ({"guardrails": [print]}, True),
        ({"human_input": True}, True),
    ],
)
def test_text_is_held_back_if_something_may_change_it(member: Any, guarded: bool) -> None:
    from crewai import hooks

    from a2a_bridge_adapters.crewai import is_guarded

    assert is_guarded(crew(tasks=[member])) is guarded
    assert is_guarded(crew(tasks=[member], after_kickoff_callbacks=[print]))
    hooks.HOOKS.append(print)
    assert is_guarded(crew())
