"""The adapter of the Claude Agent SDK over a stand-in of its interface (fakes/claude_agent_sdk). The real SDK, with a
stand-in for Claude Code: `make frameworks`.
"""

from typing import Any

import pytest

from a2a_bridge import Agent, Run, connect
from a2a_bridge.ext import A2AError, NoAgentError, Reason, hub
from a2a_bridge.testing.adapter_contract import callers
from a2a_bridge.testing.contracts import AdapterContract
from a2a_bridge.testing.each import each

pytestmark = pytest.mark.usefixtures("fakes")


def options(**members: Any) -> Any:
    from claude_agent_sdk import ClaudeAgentOptions

    return ClaudeAgentOptions(**members)


class TestContract(AdapterContract):
    @pytest.fixture
    def agent(self, fakes: Any) -> Agent:
        return Agent.of(options())


def test_options_that_cannot_be_served_are_named() -> None:
    from claude_agent_sdk import ClaudeSDKClient, StreamEvent
    from claude_agent_sdk.types import AgentDefinition

    with pytest.raises(TypeError, match=r"ClaudeSDKClient cannot be served .*give ClaudeAgentOptions"):
        Agent.of(ClaudeSDKClient(options()))
    with pytest.raises(TypeError, match="AgentDefinition cannot be served"):
        Agent.of(AgentDefinition("a"))
    with pytest.raises(TypeError, match="StreamEvent cannot be served"):
        Agent.of(StreamEvent({}, ""))
    with pytest.raises(NoAgentError):
        Agent.of(AgentDefinition)
    for name in ("continue_conversation", "session_id"):
        with pytest.raises(ValueError, match=f"have {name}, a session of all callers"):
            Agent.of(options(**{name: "x"}))


async def test_the_card_has_the_prompt_and_the_subagents() -> None:
    from claude_agent_sdk.types import AgentDefinition

    agents = {"reviewer": AgentDefinition("Reviews code.")}
    card = Agent.of(options(system_prompt="Keeps the desk.\nIs polite.", agents=agents)).card
    assert (card.name, card.description) == ("agent", "Keeps the desk.")
    assert [(one.id, one.description) for one in card.skills] == [("reviewer", "Reviews code.")]


async def test_each_conversation_begins_with_a_copy_of_the_session_of_the_options() -> None:
    thing = options(resume="old", resume_session_at="m1", sessions={"old": ["before"]})
    async with callers(Agent.of(thing)) as (ann, bob):
        for caller in (ann, bob, ann):
            await caller.say("recall", where="c")
    assert thing.sessions["old"] == ["before"]
    assert sorted(thing.sessions.values()) == [
        ["before"],
        ["before", "recall"],
        ["before", "recall", "recall"],
    ]
    first, _, third = (one for one in thing.log if one != "interrupt")
    assert (first.resume, first.fork_session, first.resume_session_at) == ("old", True, "m1")
    assert (third.fork_session, third.resume_session_at) == (False, None)


async def test_the_options_of_a_turn_are_made_from_its_run() -> None:
    thing = options()

    async def made(run: Run) -> Any:
        return options(user=run.text, log=thing.log)

    def wrong(run: Run) -> Any:
        return options(session_id="s", log=thing.log)

    async with connect(Agent.of(thing, options_for=made)) as peer:
        await peer.send("hi")
    async with connect(Agent.of(thing, options_for=wrong)) as peer:
        assert (await peer.send("hi")).state == "failed"
    (used,) = thing.log
    assert (used.user, used.include_partial_messages, used.max_buffer_size) == ("hi", True, 64 * 1024 * 1024)


async def test_a_decision_of_the_user_is_asked_of_no_caller() -> None:
    from claude_agent_sdk import PermissionResultDeny

    async def never(name: str, arguments: Any, context: Any) -> Any:
        return PermissionResultDeny(f"no {name}")

    async with connect(Agent.of(options(can_use_tool=never))) as peer:
        assert (await peer.send("approve")).text == "done: no delete"
    thing = options(permission_prompt_tool_name="mcp__desk__decide")
    async with connect(Agent.of(thing)) as peer:
        await peer.send("hi")
    assert thing.log[0].can_use_tool is None


async def test_a_cancelled_turn_is_interrupted_and_one_that_waits_ends() -> None:
    thing = options()
    agent: Any = Agent.of(thing)
    async with callers(agent) as (ann, _):
        assert (await ann.say("slow", where="c", cancel_at="begun")).state == "canceled"
        assert thing.log[1:] == ["interrupt"]
        asked = await ann.say("approve", where="c")
        (turn,) = agent.executor._waiting.values()
        await ann.cancel(asked.task_id)
        assert not agent.executor._waiting
        assert turn._task.done()
        assert "interrupt" not in thing.log[2:]


async def test_no_result_and_other_results() -> None:
    from a2a_bridge_adapters.content import json_of

    thing = options(outputs={"heard a": {"city": "Oslo"}, "heard b": None, "heard c": ""})
    async with connect(Agent.of(thing)) as peer:
        task = (await peer.send("a")).task
        assert task is not None
        assert [json_of(part) for one in task.artifacts for part in one.parts] == [{"city": "Oslo"}]
        assert (await peer.send("b")).state == "failed"
        assert (await peer.send("c")).text == ""


def test_what_is_told_of_a_message() -> None:
    from claude_agent_sdk import AssistantMessage, StreamEvent, ToolResultBlock, ToolUseBlock, UserMessage

    from a2a_bridge_adapters.claude_agent import _Spoken
    from a2a_bridge_adapters.live_turns import Said

    def delta(text: str, parent: str | None = None) -> Any:
        event = {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": text}}
        return StreamEvent(event, "s", parent)

    image = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}]
    for members, told in (
        ({}, [Said(" 1", "a")]),
        ({"hooks": {"MessageDisplay": []}}, [Said(" 1", "a", True)]),
        ({"output_format": {}}, []),
    ):
        assert list(_Spoken(options(**members)).outputs(delta("a"))) == told
    spoken = _Spoken(options())
    assert not list(spoken.outputs(delta("a", parent="toolu_1")))
    for name, files in (("Read", 0), ("mcp__desk__draw", 1)):
        assert not list(spoken.outputs(AssistantMessage([ToolUseBlock(name, name, {})])))
        assert len(list(spoken.outputs(UserMessage([ToolResultBlock(name, image)])))) == files


@each(
    ("given", "answers"),
    [
        ("red", {"one": "red", "two": "red"}),
        ({"one": "red", "two": ["a", "b"]}, {"one": "red", "two": '["a","b"]'}),
        ({"one": "red"}, {"one": '{"one":"red"}', "two": '{"one":"red"}'}),
    ],
)
def test_several_questions_of_one_call(given: Any, answers: Any) -> None:
    from claude_agent_sdk.types import ToolPermissionContext

    from a2a_bridge_adapters.claude_agent import call_of, decision

    arguments = {"questions": [{"question": "one"}, {"question": "two"}]}
    call = call_of("AskUserQuestion", arguments, ToolPermissionContext("t"))
    assert (call.approval, call.value) == (False, arguments)
    assert decision(arguments, given).updated_input == {**arguments, "answers": answers}


@each(
    ("part", "block"),
    [
        (hub.Part(text="a"), {"type": "text", "text": "a"}),
        (
            hub.Part(raw=b"x", media_type="image/png"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}},
        ),
        (
            hub.Part(url="https://x.example/a.pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}},
        ),
        (
            hub.Part(raw=b"x", filename="a.csv"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                "title": "a.csv",
            },
        ),
    ],
)
def test_parts_as_blocks(part: hub.Part, block: Any) -> None:
    from a2a_bridge_adapters.claude_agent import content_of

    assert content_of(part) == block


@each(
    ("part", "reason"),
    [
        (hub.Part(url="https://x.example/a.csv"), Reason.CONTENT_TYPE_NOT_SUPPORTED),
        (hub.Part(raw=b"x", filename="a.zip"), Reason.CONTENT_TYPE_NOT_SUPPORTED),
        (hub.Part(text=" \n"), Reason.INVALID_PARAMS),
    ],
)
async def test_a_message_that_the_framework_cannot_take_is_rejected(part: hub.Part, reason: Reason) -> None:
    async with connect(Agent.of(options())) as peer:
        with pytest.raises(A2AError) as caught:
            await peer.send(part)
    assert caught.value.reason is reason


@each(
    ("block", "part"),
    [
        ({"type": "text", "text": "a"}, None),
        ({"type": "document", "source": {"type": "content", "content": []}}, None),
        (
            {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
            hub.Part(url="https://x.example/a.png", media_type="image/png"),
        ),
        (
            {"type": "document", "source": {"type": "text", "data": "a"}},
            hub.Part(raw=b"a", media_type="text/plain"),
        ),
        (
            {
                "type": "document",
                "title": "a.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "eA=="},
            },
            hub.Part(raw=b"x", media_type="application/pdf", filename="a.pdf"),
        ),
    ],
)
def test_blocks_as_parts(block: Any, part: hub.Part | None) -> None:
    from a2a_bridge_adapters.claude_agent import files_of

    assert list(files_of([block])) == ([] if part is None else [part])
