"""The adapter of Strands over a stand-in of its interface (fakes/strands). Real agents: `make frameworks`."""

from typing import Any

import pytest

from a2a_bridge import Agent, Run, connect
from a2a_bridge.ext import A2AError, CallContext, NoAgentError, Reason, hub
from a2a_bridge.testing.contracts import AdapterContract
from a2a_bridge.testing.each import each

pytestmark = pytest.mark.usefixtures("fakes")


def scripted(**options: Any) -> Any:
    from strands.agent import Agent as Scripted

    return Scripted(**options)


class TestContract(AdapterContract):
    changes_arguments = False

    @pytest.fixture
    def agent(self, fakes: Any) -> Agent:
        return Agent.of(scripted())


class TestContractOfAnAgentForEachConversation(AdapterContract):
    changes_arguments = False

    @pytest.fixture
    def agent(self, fakes: Any) -> Agent:
        async def made(name: str) -> Any:
            assert len(name) == 64
            return scripted()

        return Agent.of(scripted(), agent_factory=made)


def test_an_object_that_is_no_agent_is_named() -> None:
    from strands.agent.agent import Stage
    from strands.hooks import AfterModelCallEvent

    with pytest.raises(NoAgentError, match=r"Event is an object of Strands Agents, .*an Agent"):
        Agent.of(AfterModelCallEvent(None))
    with pytest.raises(TypeError, match="a Stage is no Agent of Strands"):
        Agent.of(Stage("a"))
    with pytest.raises(ValueError, match="that of all callers"):
        Agent.of(scripted(session=object()))


async def test_the_state_of_an_invocation_is_made_from_the_run_and_the_card_has_the_tools() -> None:
    thing = scripted(name="Strands Agents", system_prompt="Keeps the desk.\nIs polite.")
    agent = Agent.of(thing, invocation_state=lambda run: {"said": run.text})
    async with connect(agent) as peer:
        await peer.send("hi")

        async def state(run: Run) -> dict[str, str]:
            return {"later": run.text}

        async with connect(Agent.of(thing, invocation_state=state)) as other:
            await other.send("ho")
    assert thing.states == [{"said": "hi"}, {"later": "ho"}]
    assert (agent.card.name, agent.card.description) == ("agent", "Keeps the desk.")
    assert [one.id for one in agent.card.skills] == ["delete"]


async def test_no_conversation_stays_in_the_object_of_the_user() -> None:
    thing = scripted()
    async with connect(Agent.of(thing)) as peer:
        await peer.send("hi")
        await peer.send("crash")
        await peer.send("approve")
    assert (thing.messages, thing.interrupts) == ([], {})
    async with connect(Agent.of(thing)) as peer:
        assert (await peer.send("recall")).text == "recall"


async def test_structured_output_is_data() -> None:
    from a2a_bridge_adapters.content import json_of

    async with connect(Agent.of(scripted(outputs={"heard a": {"city": "Oslo"}}))) as peer:
        task = (await peer.send("a")).task
    assert task is not None
    assert [json_of(part) for one in task.artifacts for part in one.parts] == [{"city": "Oslo"}]


@each(
    ("answer", "fails", "known"),
    [
        ("yes", "after the tools", "deleted x"),
        ("yes", "before the tools", "The user approved the call. It may have run: its result is not known."),
        ("too much", "before the tools", "too much"),
        ("no", "before the tools", "The user denied the call."),
    ],
)
async def test_a_failed_turn_keeps_the_results_of_the_calls_that_were_answered(
    answer: str, fails: str, known: str
) -> None:
    for session in (None, object()):
        thing = scripted(fails=fails, session=session)
        agent = Agent.of(scripted(), agent_factory=lambda _, thing=thing: thing)
        async with connect(agent) as peer:
            asked = (await peer.send("approve")).task
            assert asked is not None
            assert (await peer.send(answer, task=asked)).state == "failed"
            assert (await peer.send("recall", context_id=asked.context_id)).text == "approve,recall"
        (result,) = (
            one["toolResult"] for each in thing.messages for one in each["content"] if "toolResult" in one
        )
        assert result["content"] == [{"text": known}]


async def test_a_question_in_a_session_outlives_the_process() -> None:
    from a2a_bridge_adapters.conversations import ConversationKey

    thing = scripted(session=object())
    async with connect(Agent.of(scripted(), agent_factory=lambda _: thing)) as peer:
        task = (await peer.send("approve")).task
    assert task is not None
    later: Any = Agent.of(scripted(), agent_factory=lambda _: thing)  # the same session
    run = Run(hub.SendMessageRequest(), CallContext(), task.id, task.context_id)
    (call,) = await later.executor.open_calls(ConversationKey("", "", task.context_id), run)
    assert (call.name, call.value, call.approval) == ("delete", {"path": "x"}, True)


async def test_an_interrupt_may_be_a_question_by_its_name() -> None:
    for named in ("approval", ["approval"]):
        async with connect(Agent.of(scripted(), questions=named)) as peer:
            asked = (await peer.send("approve")).task
            assert asked is not None
            assert asked.status.message.parts[0].text == "approval"
            assert (await peer.send("y", task=asked)).text == "done: deleted x"


def test_text_is_held_back_if_something_may_change_it() -> None:
    from strands.agent.agent import Stage

    from a2a_bridge_adapters.strands import is_guarded

    def own() -> None: ...

    own.__module__ = "strands.event_loop._retry"
    assert not is_guarded(scripted(callbacks=[own]))
    assert is_guarded(scripted(callbacks=[own, lambda event: None]))
    thing = scripted()
    thing.model.config["guardrail_id"] = "a"
    assert is_guarded(thing)
    for name, found in (("executeTool", False), ("invokeModel", True)):
        thing = scripted()
        stage = Stage(name)
        thing._middleware_registry._handlers[stage] = [object()]
        assert is_guarded(thing) is found


@each(
    ("part", "block"),
    [
        (hub.Part(text="a"), {"text": "a"}),
        (
            hub.Part(raw=b"x", media_type="image/png"),
            {"image": {"format": "png", "source": {"bytes": b"x"}}},
        ),
        (
            hub.Part(raw=b"x", filename="a_b!.csv"),
            {"document": {"format": "csv", "source": {"bytes": b"x"}, "name": "a b"}},
        ),
        (
            hub.Part(raw=b"x", media_type="text/plain; charset=utf-8"),
            {"document": {"format": "txt", "source": {"bytes": b"x"}, "name": "document"}},
        ),
        (
            hub.Part(url="s3://bucket/a.mp4"),
            {"video": {"format": "mp4", "source": {"location": {"type": "s3", "uri": "s3://bucket/a.mp4"}}}},
        ),
    ],
)
def test_parts_as_blocks(part: hub.Part, block: Any) -> None:
    from a2a_bridge_adapters.strands import content_of

    assert content_of(part) == block


@each(
    "part",
    [hub.Part(url="https://x.example/a.png"), hub.Part(raw=b"x"), hub.Part(raw=b"x", filename="a.zip")],
)
async def test_a_file_that_the_framework_cannot_take_is_rejected(part: hub.Part) -> None:
    async with connect(Agent.of(scripted())) as peer:
        with pytest.raises(A2AError) as caught:
            await peer.send(part)
    assert caught.value.reason is Reason.CONTENT_TYPE_NOT_SUPPORTED


@each(
    ("block", "parts"),
    [
        ({"text": "a"}, []),
        (
            {"image": {"format": "png", "source": {"bytes": b"x"}}},
            [hub.Part(raw=b"x", media_type="image/png")],
        ),
        (
            {"document": {"format": "csv", "name": "a", "source": {"location": {"uri": "s3://b/a.csv"}}}},
            [hub.Part(url="s3://b/a.csv", media_type="text/csv", filename="a.csv")],
        ),
        (
            {"document": {"format": "pdf", "name": "a", "source": {"bytes": b""}}},
            [hub.Part(raw=b"", media_type="application/pdf", filename="a.pdf")],
        ),
        ({"document": {"format": "txt", "name": "a", "source": {"text": "told"}}}, []),
    ],
)
def test_blocks_as_parts(block: Any, parts: list[hub.Part]) -> None:
    from a2a_bridge_adapters.strands import files_of

    assert list(files_of({"content": [block]})) == parts
    assert list(files_of({"content": [{"toolResult": {"content": [block]}}]})) == parts
