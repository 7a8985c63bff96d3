"""The adapter of the OpenAI Agents SDK over a stand-in of its interface (fakes/agents). Real agents: `make frameworks`."""

import asyncio
import sys
from typing import Any

import pytest

from a2a_bridge import Agent, Run, connect
from a2a_bridge.ext import NoAgentError, hub
from a2a_bridge.testing.contracts import AdapterContract
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("fakes")


def scripted(**options: Any) -> Any:
    import agents

    return agents.Agent(**options)


class TestContract(AdapterContract):
    changes_arguments = False

    @pytest.fixture
    def agent(self, fakes: Any) -> Agent:
        return Agent.of(scripted(), questions=["question"])


def test_an_object_that_is_no_agent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import agents

    with pytest.raises(NoAgentError, match=r"RunConfig is an object of the OpenAI Agents SDK, .*an Agent"):
        Agent.of(agents.RunConfig())
    thing = scripted()
    monkeypatch.delattr(sys.modules["agents"], "Runner")
    with pytest.raises(NoAgentError, match=r"type Agent is no agent"):
        Agent.of(thing)  # a package of the user with the same name


async def test_options_reach_the_runner_and_the_card_names_the_agent() -> None:
    thing, config = scripted(), object()
    thing.handoff_description = "Keeps the desk."

    async def context(run: Run) -> str:
        return f"for {run.text}"

    for made in (context, lambda run: f"for {run.text}"):
        agent = Agent.of(thing, context=made, run_config=config, max_turns=3)
        async with connect(agent) as peer:
            await peer.send("hi")
    assert thing.contexts == [("for hi", config, 3)] * 2
    assert (agent.card.name, agent.card.description) == ("scripted", "Keeps the desk.")


async def told(thing: Any, *texts: str) -> list[Any]:
    """The content of each artifact of the last of several turns."""
    from a2a_bridge_adapters.content import json_of

    context_id, task = "", None
    async with connect(Agent.of(thing)) as peer:
        for text in texts:
            task = (await peer.send(text, context_id=context_id)).task
            assert task is not None
            context_id = task.context_id
    assert task is not None
    return [
        json_of(one.parts[0]) if one.parts[0].HasField("data") else "".join(part.text for part in one.parts)
        for one in task.artifacts
    ]


async def test_structured_output_is_data_and_its_json_is_no_text() -> None:
    assert await told(scripted(output_type=dict, outputs={"heard a": {"city": "Oslo"}}), "a") == [
        {"city": "Oslo"}
    ]


async def test_a_model_that_does_not_stream_is_told_by_its_message() -> None:
    thing = scripted()
    thing.streams = False
    assert await told(thing, "chunks") == ["one two three"]


async def test_the_result_of_a_tool_that_ends_the_run_is_the_answer() -> None:
    assert await told(scripted(), "think and stop") == ["stopped"]


async def test_the_agent_that_a_turn_was_handed_to_gets_the_next_one() -> None:
    first, second = scripted(), scripted(name="second", output_type=dict, outputs={"heard a": {"by": 2}})
    first.handoffs.append(second)
    assert await told(first, "transfer", "a") == [{"by": 2}]
    assert (len(first.contexts), len(second.contexts)) == (1, 1)


async def test_a_guardrail_rejects_the_task_without_a_text_of_the_agent() -> None:
    async with connect(Agent.of(scripted())) as peer:
        reply = await peer.send("guarded")
        assert (reply.state, reply.text) == ("rejected", "A guardrail of the agent rejected the message.")
        assert reply.task is not None
        where = reply.task.context_id
        assert (await peer.send("recall", context_id=where)).text == "recall"


async def test_a_picture_of_the_model_is_an_artifact() -> None:
    async with connect(Agent.of(scripted())) as peer:
        task = (await peer.send("draw")).task
    assert task is not None
    found = [part for one in task.artifacts for part in one.parts if part.HasField("raw")]
    assert [(one.raw, one.media_type) for one in found] == [(b"\x89PNG", "image/png")]


@each(
    ("part", "content"),
    [
        (hub.Part(text="a"), {"type": "input_text", "text": "a"}),
        (
            hub.Part(url="https://x.example/a.png"),
            {"type": "input_image", "image_url": "https://x.example/a.png", "detail": "auto"},
        ),
        (
            hub.Part(raw=b"x", media_type="audio/mpeg"),
            {"type": "input_audio", "input_audio": {"data": "eA==", "format": "mp3"}},
        ),
        (
            hub.Part(url="https://x.example/a.pdf", filename="b.pdf"),
            {"type": "input_file", "file_url": "https://x.example/a.pdf", "filename": "b.pdf"},
        ),
        (
            hub.Part(raw=b"x", filename="a.pdf"),
            {"type": "input_file", "file_data": "data:application/pdf;base64,eA==", "filename": "a.pdf"},
        ),
    ],
)
def test_parts_as_content(part: hub.Part, content: Any) -> None:
    from a2a_bridge_adapters.openai_agents import content_of

    assert content_of(part) == content


@each(
    ("output", "part"),
    [
        ("text", None),
        ({"type": "text", "text": "a"}, None),
        ({"type": "file", "file_id": "f-1"}, None),
        (
            {"type": "image", "image_url": "data:image/png;base64,eA=="},
            hub.Part(raw=b"x", media_type="image/png"),
        ),
        (
            {"type": "image", "image_url": "https://x.example/a.png"},
            hub.Part(url="https://x.example/a.png", media_type="image/png"),
        ),
        (
            {"type": "file", "file_data": "eA==", "filename": "a.pdf"},
            hub.Part(raw=b"x", media_type="application/pdf", filename="a.pdf"),
        ),
        (
            {"type": "file", "file_data": "data:text/csv;base64,eA=="},
            hub.Part(raw=b"x", media_type="text/csv"),
        ),
        (
            {"type": "file", "file_data": "data:text/plain;charset=utf-8,a%20b"},
            hub.Part(raw=b"a b", media_type="text/plain"),
        ),
        (
            {"type": "file", "file_data": "", "filename": "a.csv"},
            hub.Part(raw=b"", media_type="text/csv", filename="a.csv"),
        ),
        (
            {"type": "file", "file_data": "data:;base64,"},
            hub.Part(raw=b"", media_type="application/octet-stream"),
        ),
        (
            {"type": "file", "file_url": "https://x.example/a"},
            hub.Part(url="https://x.example/a", media_type="application/octet-stream"),
        ),
    ],
)
def test_outputs_of_tools_as_parts(output: Any, part: hub.Part | None) -> None:
    from a2a_bridge_adapters.openai_agents import file_of

    assert file_of(output) == part


def test_each_kind_of_open_call_gets_a_result_of_its_kind() -> None:
    from a2a_bridge_adapters.openai_agents import denials
    from a2a_bridge_adapters.questions import ABANDONED

    items = [
        {"role": "user", "content": "a"},
        {"type": "function_call", "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "done"},
        {"type": "function_call", "call_id": "2"},
        {"type": "custom_tool_call", "call_id": "3"},
        {"type": "apply_patch_call", "call_id": "4"},
        {"type": "shell_call", "call_id": "5"},
        {"type": "mcp_approval_request", "id": "6"},
        {"type": "mcp_approval_request", "id": "7"},
        {"type": "mcp_approval_response", "approval_request_id": "7", "approve": True},
    ]
    made = denials(items)
    assert [(one["type"], one.get("call_id") or one.get("approval_request_id")) for one in made] == [
        ("function_call_output", "2"),
        ("custom_tool_call_output", "3"),
        ("apply_patch_call_output", "4"),
        ("shell_call_output", "5"),
        ("mcp_approval_response", "6"),
    ]
    assert all(ABANDONED in str(one) for one in made)
    assert denials([*items, *made]) == []


async def test_a_failed_turn_leaves_no_history_and_a_late_answer_reaches_nobody() -> None:
    async with connect(Agent.of(scripted())) as peer:
        first = (await peer.send("approve")).task
        assert first is not None
        where = first.context_id
        assert (await peer.send("crash", context_id=where)).state == "failed"
        assert (await peer.send("yes", task=first)).state == "failed"
        second = (await peer.send("approve", context_id=where)).task
        assert (await peer.send("yes", task=second)).text == "done: deleted x"
        assert (await peer.send("recall", context_id=where)).text == "approve,approve,recall"


@each(
    ("answer", "fails", "known"),
    [
        ("yes", "after the tool", "deleted x"),
        ("yes", "before the tool", "The user approved the call. It may have run: its result is not known."),
        ("too much", "before the tool", "too much"),
        ("no", "before the tool", "The user denied the call."),
    ],
)
async def test_a_failed_turn_keeps_the_results_of_the_calls_that_were_answered(
    answer: str, fails: str, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import agents

    thing = scripted()
    agent = Agent.of(thing)
    async with connect(agent) as peer:
        asked = (await peer.send("approve")).task

        async def crash(self: Any) -> None:
            self.new_items.clear()
            raise RuntimeError("the tool crashed")

        with monkeypatch.context() as changed:
            if fails == "after the tool":
                thing.output_guardrails = ["trips"]
            else:
                changed.setattr(agents.RunResultStreaming, "_turns", crash)
            assert (await peer.send(answer, task=asked)).state in ("rejected", "failed")
    (history,) = agent.executor.conversations._states.values()  # type: ignore[attr-defined]
    assert [one.get("output") for one in history.items] == [None, None, known]
    assert history.open_calls == ()


async def test_an_answer_to_a_question_may_be_data() -> None:
    async with connect(Agent.of(scripted(), questions="question")) as peer:
        asked = (await peer.send("question")).task
        assert asked is not None
        assert asked.status.message.parts[0].text == "which colour?"
        assert (await peer.send({"colour": "red"}, task=asked)).text == 'done: got {"colour": "red"}'


async def test_a_cancelled_tool_has_ended_before_the_next_turn_begins() -> None:
    import agents

    thing = scripted()
    async with connect(Agent.of(thing)) as peer:
        task_id = where = ""
        async for event in peer.stream("tool"):
            if event.HasField("artifact_update"):
                task_id, where = event.artifact_update.task_id, event.artifact_update.context_id
                await peer.cancel_task(hub.CancelTaskRequest(id=task_id))
        following = asyncio.create_task(peer.send("hello", context_id=where))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert len(thing.contexts) == 1
        assert not following.done()
        agents.CLEAN.set()
        assert (await asyncio.wait_for(following, PATIENCE)).text == "heard hello"
