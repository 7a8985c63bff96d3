"""The adapter of Google ADK over a stand-in of its interface (fakes/google). Real agents: `make frameworks`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_bridge import Agent, connect, serve
from a2a_bridge.ext import NoAgentError, ServeOptions, hub
from a2a_bridge.testing.adapter_contract import callers
from a2a_bridge.testing.contracts import AdapterContract
from a2a_bridge.testing.each import each
from tests.frameworks.adapters import keep

pytestmark = pytest.mark.usefixtures("fakes")


def scripted(**members: Any) -> Any:
    from google.adk.agents import BaseAgent

    return BaseAgent(**members)


def event(*parts: Any, author: str = "scripted", **members: Any) -> Any:
    from google.adk.events import Event
    from google.genai import types

    return Event(author, types.Content("model", list(parts)), **members)


def text(words: str) -> Any:
    from google.genai import types

    return types.Part(text=words)


class TestContract(AdapterContract):
    @pytest.fixture
    def agent(self, fakes: Any) -> Agent:
        return Agent.of(scripted())


async def test_a_tool_without_a_payload_takes_no_other_arguments() -> None:
    async with callers(Agent.of(scripted(payload=False))) as both:
        await keep("an approval with other arguments", *both, changes_arguments=False)


def test_an_object_that_is_no_agent_is_named() -> None:
    from google.adk.agents.run_config import RunConfig

    with pytest.raises(NoAgentError, match=r"type RunConfig is an object of Google ADK, .*: give an agent,"):
        Agent.of(RunConfig())
    thing = type("Odd", (), {"__module__": "google.adk.workflow._workflow"})()
    with pytest.raises(TypeError, match="Odd is no agent, Workflow, App or Runner"):
        Agent.of(thing)


async def test_an_app_and_a_runner_are_agents_and_text_is_streamed_by_default() -> None:
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.apps import App
    from google.adk.runners import InMemorySessionService, Runner

    root = scripted(name="desk", description="Keeps the desk.")
    runner = Runner(app_name="office", agent=root, session_service=InMemorySessionService())
    config = RunConfig()
    for thing, options in ((App("office", root), {}), (runner, {"run_config": config})):
        agent = Agent.of(thing, **options)
        assert (agent.card.name, agent.card.description) == ("desk", "Keeps the desk.")
        async with connect(agent) as peer:
            assert (await peer.send("hi")).text == "heard hi"
    assert runner.run_configs == [config]
    used = Agent.of(root).executor._config  # type: ignore[attr-defined]
    assert used.streaming_mode is StreamingMode.SSE


async def told(thing: Any, message: str = "go") -> tuple[str, list[Any]]:
    """The state of a task, and the content of each artifact."""
    from a2a_bridge_adapters.content import json_of

    async with connect(Agent.of(thing)) as peer:
        reply = await peer.send(message)
    assert reply.task is not None
    return reply.state, [
        json_of(one.parts[0]) if one.parts[0].HasField("data") else "".join(part.text for part in one.parts)
        for one in reply.task.artifacts
    ]


async def test_agents_that_speak_at_once_have_artifacts_of_their_own() -> None:
    events = [
        event(text("a1 "), author="a", partial=True),
        event(text("b1 "), author="b", partial=True),
        event(text("a2"), author="a", partial=True),
        event(text("a1 a2"), author="a"),
        event(text("b2"), author="b", partial=True),
        event(text("b1 b2"), author="b"),
        event(text("whole"), author="a"),
    ]
    assert await told(scripted(events={"go": events})) == ("completed", ["a1 a2", "b1 b2", "whole"])


async def test_the_output_of_a_schema_is_data_and_its_json_is_no_text() -> None:
    inner = scripted(name="inner", output_schema=dict)
    events = [
        event(text('{"city": '), author="inner", partial=True),
        event(text('{"city": "Oslo"}'), author="inner", output={"city": "Oslo"}),
    ]
    found = await told(scripted(sub_agents=[inner], events={"go": events}))
    assert found == ("completed", [{"city": "Oslo"}])


@each(
    ("outputs", "found"),
    [
        ([{"length": 3}], [{"length": 3}]),
        ([{"length": 3}, "three"], ["three"]),
        ([{"length": 3}, None], ["spoken"]),
        ([None, "three"], ["three"]),
        ([None, {"length": 3}], [{"length": 3}]),
    ],
)
async def test_the_last_output_of_a_workflow_is_told_unless_text_follows(
    outputs: list[Any], found: list[Any]
) -> None:
    events = [event(text("spoken")) if one is None else event(output=one) for one in outputs]
    assert await told(scripted(edges=[], events={"go": events})) == ("completed", found)


@each(
    ("last", "state"), [({}, "completed"), ({"error_code": "SAFETY", "error_message": "a secret"}, "failed")]
)
async def test_an_error_of_the_model_at_the_end_fails_the_task(last: Any, state: str) -> None:
    events = [event(text("begun"), error_code="MAX_TOKENS"), event(**last)]
    assert await told(scripted(events={"go": events})) == (state, ["begun"])


@each(
    ("last", "found"),
    [
        ({}, ("completed", ["one two"])),
        ({"error_code": "SAFETY", "error_message": "a secret"}, ("failed", [""])),
    ],
)
async def test_the_pieces_of_a_message_count_if_its_end_repeats_no_text(last: Any, found: Any) -> None:
    pieces = [event(text(word), partial=True) for word in ("one ", "two")]
    assert await told(scripted(events={"go": [*pieces, event(**last)]})) == found


async def test_a_request_for_credentials_fails_the_task_and_shows_no_secret() -> None:
    from google.genai import types

    secret = types.FunctionCall("adk_request_credential", {"clientSecret": "a secret"}, "1")
    events = [event(types.Part(function_call=secret), long_running_tool_ids={"1"})]
    async with connect(Agent.of(scripted(events={"go": events}))) as peer:
        reply = await peer.send("go")
        assert reply.state == "failed"
        assert reply.task is not None
        assert "secret" not in str(reply.task)
        assert (await peer.send("hello", context_id=reply.task.context_id)).text == "heard hello"


async def test_calls_of_a_turn_that_failed_get_a_result_before_the_next_one() -> None:
    from google.genai import types

    from a2a_bridge_adapters.google_adk import denials
    from a2a_bridge_adapters.questions import ABANDONED

    def part(name: str, call_id: str) -> Any:
        return types.Part(function_call=types.FunctionCall(name, {}, call_id))

    def result(call_id: str) -> Any:
        return types.Part(function_response=types.FunctionResponse(call_id, "", {}))

    events = [
        event(part("done", "1"), part("crashed", "2"), invocation_id="a", branch="b"),
        event(result("1"), invocation_id="a"),
        event(part("waits", "3"), invocation_id="a", long_running_tool_ids={"3"}),
        event(result("3"), invocation_id="a"),
        event(part("adk_request_confirmation", "4"), invocation_id="a", long_running_tool_ids={"4"}),
        event(part("waits", "5"), invocation_id="a", long_running_tool_ids={"5"}),
        event(result("5"), author="user", invocation_id="a"),
        event(part("again", "1"), invocation_id="c"),
    ]
    made = denials(events)
    found = {one.id: one.response for made_one in made for one in made_one.get_function_responses()}
    assert found.keys() == {"1", "2", "3", "4"}
    assert (found["3"], found["4"]) == ({"error": ABANDONED}, {"confirmed": False})
    assert found["1"] == found["2"] == {"error": "The call did not come to its end."}
    assert {(one.author, one.invocation_id) for one in made} == {("user", "a"), ("user", "c")}
    assert made[0].branch == "b"
    assert denials([*events, *made]) == []


def test_an_approved_call_without_a_result_may_have_run() -> None:
    from google.genai import types

    from a2a_bridge_adapters.google_adk import denials
    from a2a_bridge_adapters.questions import MAY_HAVE_RUN

    def result(name: str, call_id: str, **response: Any) -> Any:
        return types.Part(function_response=types.FunctionResponse(call_id, name, response))

    def call(name: str, call_id: str, **arguments: Any) -> Any:
        return types.Part(function_call=types.FunctionCall(name, arguments, call_id))

    confirms = "adk_request_confirmation"
    asked = [
        event(call("refund", "1"), invocation_id="a"),
        event(result("refund", "1", error="needs a confirmation"), invocation_id="a"),
        event(
            call(confirms, "2", originalFunctionCall={"id": "1"}),
            invocation_id="a",
            long_running_tool_ids={"2"},
        ),
    ]
    approved = [*asked, event(result(confirms, "2", confirmed=True), author="user", invocation_id="a")]
    (made,) = denials(approved)
    assert [(one.id, one.response) for one in made.get_function_responses()] == [
        ("1", {"error": MAY_HAVE_RUN})
    ]
    assert denials([*approved, made]) == []
    assert denials([*approved, event(result("refund", "1", result="refunded"), invocation_id="a")]) == []
    denied = event(result(confirms, "2", confirmed=False), author="user", invocation_id="a")
    assert denials([*asked, denied]) == []


@each(
    ("said", "found"),
    [
        ('{"city": "Oslo"}', {"city": "Oslo"}),
        ('```json\n{"city": "Oslo"}\n```\n', {"city": "Oslo"}),
        ("no city", "no city"),
    ],
)
async def test_structured_output_may_be_in_markdown_or_none_at_all(said: str, found: Any) -> None:
    inner = scripted(name="inner", output_schema=dict)
    events = [event(text(said), author="inner")]
    assert await told(scripted(sub_agents=[inner], events={"go": events})) == ("completed", [found])


@each(
    ("response", "found"),
    [({"result": "fetched"}, "fetched"), ({"length": 3}, {"length": 3})],
)
async def test_the_result_of_a_tool_that_ends_the_run_is_the_answer(response: Any, found: Any) -> None:
    from google.adk.events import EventActions
    from google.genai import types

    part = types.Part(function_response=types.FunctionResponse("1", "fetch", response))
    call = types.Part(function_call=types.FunctionCall("fetch", {}, "1"))
    ends = event(part, actions=EventActions(skip_summarization=True))
    events = [event(text("let me see"), call), ends]
    assert await told(scripted(events={"go": events})) == ("completed", [found])


@each(
    ("plugin", "callback", "guarded"),
    [
        ("", "", False),
        ("", "after_model_callback", True),
        ("", "after_agent_callback", True),
        ("Counting", "", False),
        ("Redacting", "", True),
        ("Logging", "", False),
    ],
)
async def test_what_may_change_the_text_of_a_model(plugin: str, callback: str, guarded: bool) -> None:
    from google.adk.agents.run_config import StreamingMode
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.runners import InMemorySessionService, Runner

    async def after_model_callback(self: Any, **given: Any) -> None: ...

    hooks = {"after_model_callback": after_model_callback}
    plugins: dict[str, Any] = {
        "Counting": type("Counting", (BasePlugin,), {}),
        "Redacting": type("Redacting", (BasePlugin,), hooks),
        "Logging": type(
            "Logging", (BasePlugin,), {**hooks, "__module__": "google.adk.plugins.logging_plugin"}
        ),
    }
    root = scripted(sub_agents=[scripted(name="inner", **({callback: len} if callback else {}))])
    runner = Runner(app_name="office", agent=root, session_service=InMemorySessionService())
    runner.plugin_manager.plugins = [plugins[plugin]()] if plugin else []
    for stream, streams in ((None, not guarded), (True, True), (False, False)):
        config = Agent.of(runner, stream=stream).executor._config  # type: ignore[attr-defined]
        assert (config.streaming_mode is StreamingMode.SSE) == streams


def test_a_node_of_a_workflow_after_an_agent_may_change_its_text() -> None:
    from a2a_bridge_adapters.google_adk import is_guarded

    for first, second, guarded in ((True, False, True), (True, True, False), (False, True, False)):
        nodes = [scripted() if one else SimpleNamespace() for one in (first, second)]
        edge = SimpleNamespace(from_node=nodes[0], to_node=nodes[1])
        workflow = SimpleNamespace(graph=SimpleNamespace(nodes=nodes, edges=[edge]))
        assert is_guarded(SimpleNamespace(agent=workflow)) == guarded


async def test_an_answer_to_a_confirmation_and_to_another_call_reaches_the_model() -> None:
    from google.genai import types

    def part(name: str, call_id: str, **arguments: Any) -> Any:
        return types.Part(function_call=types.FunctionCall(name, arguments, call_id))

    original = {"id": "2", "name": "delete", "args": {"path": "x"}}
    waits = types.FunctionResponse("2", "delete", {"result": "needs a confirmation"})
    events = [
        event(part("question", "1"), part("delete", "2", path="x"), long_running_tool_ids={"1"}),
        event(types.Part(function_response=waits)),
        event(
            part("adk_request_confirmation", "3", originalFunctionCall=original), long_running_tool_ids={"3"}
        ),
    ]
    async with connect(Agent.of(scripted(events={"go": events}))) as peer:
        asked = (await peer.send("go")).task
        assert asked is not None
        done = await peer.send({"1": "red", "3": True}, task=asked)
        assert (done.state, done.text) == ("completed", "done: got red, deleted x")
        assert (await peer.send("hello", context_id=asked.context_id)).text == "heard hello"


async def test_an_empty_file_of_a_tool_is_an_artifact_and_a_file_that_is_gone_is_none() -> None:
    from google.adk.events import EventActions

    saved = event(actions=EventActions({"empty.csv": 0, "gone.csv": 0}))
    async with connect(Agent.of(scripted(events={"go": [saved]}))) as peer:
        task = (await peer.send("go")).task
    assert task is not None
    assert [part for one in task.artifacts for part in one.parts] == [
        hub.Part(raw=b"", media_type="text/csv", filename="empty.csv")
    ]


@each(
    ("part", "kind", "media_type"),
    [
        (hub.Part(url="https://x.example/a.png"), "file_data", "image/png"),
        (hub.Part(raw=b"x", filename="a.pdf"), "inline_data", "application/pdf"),
    ],
)
def test_files_as_content(part: hub.Part, kind: str, media_type: str) -> None:
    from a2a_bridge_adapters.google_adk import content_of, file_of

    made = content_of(part)
    assert getattr(made, kind).mime_type == media_type
    part.media_type = media_type
    assert file_of(made) == part


def test_a_text_is_a_file_only_if_it_was_saved() -> None:
    from a2a_bridge_adapters.google_adk import file_of

    assert file_of(text("a")) is None
    assert file_of(text("a"), "a.txt") == hub.Part(raw=b"a", media_type="text/plain", filename="a.txt")


def test_the_user_id_of_a_caller_is_its_name_or_a_digest() -> None:
    from a2a_bridge_adapters.conversations import ConversationKey
    from a2a_bridge_adapters.google_adk import user_of

    assert user_of(ConversationKey("", "ann@x.example", "c")) == "ann@x.example"
    digests = {
        user_of(ConversationKey(tenant, name, "c"))
        for tenant, name in (
            ("", ""),
            ("t", "ann"),
            ("", ".."),
            ("", "a/b"),
            ("", "a" * 129),
            ("", "0" * 64),
            ("", "a\n"),
        )
    }
    assert len(digests) == 7
    assert all(len(one) == 64 and one != "0" * 64 for one in digests)
    assert user_of(ConversationKey("t", "a", "c")) == user_of(ConversationKey("t", "a", "another"))


async def test_the_state_of_a_session_has_the_caller_and_forgotten_sessions_are_deleted() -> None:
    agent = Agent.of(scripted(), conversations=1)
    async with connect(agent) as peer:
        first = (await peer.send("approve")).task
        assert first is not None
        runner = agent.executor._runner  # type: ignore[attr-defined]
        (session,) = runner.session_service.sessions.values()
        assert session.state["a2a_user"] == ""
        assert session.state["a2a_context_id"] == first.context_id
        await peer.send("hello")
        await peer.send("hello")
        assert (await peer.send("yes", task=first)).state == "failed"
        last = (await peer.send("approve")).task
        await peer.send("hello")
        # The session of this question is forgotten, and not deleted yet.
        assert (await peer.send("yes", task=last)).state == "failed"
        assert len(runner.session_service.sessions) <= 2
        assert set(runner.artifact_service.deleted) == {"table.csv"}


async def test_a_question_outlives_the_process_with_a_session_service_that_does(tmp_path: Path) -> None:
    from google.adk.runners import InMemorySessionService, Runner

    sessions = InMemorySessionService()  # as a database would be: what both processes share
    asked: Any = None
    for again in (False, True):
        runner = Runner(app_name="office", agent=scripted(), session_service=sessions)
        options = ServeOptions(store=f"sqlite:///{tmp_path / 'tasks.db'}")
        async with serve(Agent.of(runner), options=options) as server, connect(server.card) as peer:
            if again:
                assert (await peer.send("yes", task=asked)).text == "done: deleted x"
            else:
                asked = (await peer.send("approve")).task
