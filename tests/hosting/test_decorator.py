"""@agent: functions as agents, and the values that they may return or yield."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Annotated, Any, Optional

import pytest

from a2a_bridge import hosting
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import data_part
from a2a_bridge.hosting import Agent, Run, agent
from a2a_bridge.hosting.decorator import Threads
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Value
from a2a_bridge.testing.each import each
from tests.hosting.scene import (
    CANCELED,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    PATIENCE,
    REJECTED,
    SUBMITTED,
    WORKING,
    Talk,
    request,
    shapes,
)
from tests.rejections import rejected


@agent
async def weather(city: str) -> str:
    """Tells the weather.

    Of any city.
    """
    return f"{city}: 21 °C"


@agent
async def slowly(run: Run) -> AsyncIterator[Any]:
    """Looks first."""
    yield "looking… "
    yield f"{run.text}: "
    yield "21 °C"


async def test_the_card_comes_from_the_function() -> None:
    card = weather.card
    assert (card.name, card.description, card.version) == (
        "weather",
        "Tells the weather.\n\nOf any city.",
        "1.0.0",
    )
    (skill,) = card.skills
    assert (skill.id, skill.name, skill.description, list(skill.tags)) == (
        "weather",
        "weather",
        "Tells the weather.",
        ["weather"],
    )
    assert card.capabilities.streaming
    assert not card.capabilities.push_notifications
    assert list(card.default_input_modes) == list(card.default_output_modes) == ["text/plain"]
    assert len(card.supported_interfaces) == 0


async def test_the_card_has_the_values_of_the_decorator() -> None:
    skill = hub.AgentSkill(id="s", name="S", description="d", tags=["t"])
    extension = hub.AgentExtension(uri="https://e.example/1")
    provider = hub.AgentProvider(url="https://p.example/", organization="P")
    bearer = hub.SecurityScheme(http_auth_security_scheme=hub.HTTPAuthSecurityScheme(scheme="Bearer"))
    key = hub.SecurityScheme(api_key_security_scheme=hub.APIKeySecurityScheme(location="header", name="k"))

    @agent(
        name="Weather",
        description="Tells it",
        version="2.1",
        skills=[skill],
        streaming=False,
        push_notifications=True,
        extensions=[extension],
        provider=provider,
        output_modes=["application/json"],
        icon_url="https://p.example/icon.png",
        documentation_url="https://p.example/docs",
        security={"bearer": bearer, "key": key},
    )
    async def any_name(text: str) -> str:
        return text

    card = any_name.card
    assert (card.name, card.description, card.version, card.provider) == (
        "Weather",
        "Tells it",
        "2.1",
        provider,
    )
    assert (list(card.skills), list(card.capabilities.extensions)) == ([skill], [extension])
    assert (card.capabilities.streaming, card.capabilities.push_notifications) == (False, True)
    assert list(card.default_output_modes) == ["application/json"]
    assert (card.icon_url, card.documentation_url) == ("https://p.example/icon.png", "https://p.example/docs")
    assert dict(card.security_schemes) == {"bearer": bearer, "key": key}
    assert [list(one.schemes) for one in card.security_requirements] == [["bearer"], ["key"]]


async def test_the_function_can_still_be_called() -> None:
    assert await weather("Oslo") == "Oslo: 21 °C"
    with pytest.raises(TypeError):
        Agent(weather.executor, name="x")("Oslo")
    assert isinstance(weather, Agent)
    assert "weather" in repr(weather)
    assert hosting.agent is agent


async def test_a_returned_value_is_a_message() -> None:
    message = await Talk(weather).send("Oslo", context_id="c")
    assert (message.parts[0].text, message.role, message.context_id) == ("Oslo: 21 °C", hub.ROLE_AGENT, "c")


def number(value: float) -> hub.Part:
    return hub.Part(data=Value(number_value=value))


@each(
    ("given", "parts"),
    [
        ("text", [hub.Part(text="text")]),
        ("", [hub.Part(text="")]),
        (b"\x00\xff", [hub.Part(raw=b"\x00\xff")]),
        (7, [number(7)]),
        (0, [number(0)]),
        ({"a": [1, None]}, [data_part({"a": [1, None]})]),
        (["a", "b"], [data_part(["a", "b"])]),
        ([], [data_part([])]),
        (hub.Part(url="https://e.example/"), [hub.Part(url="https://e.example/")]),
        ([hub.Part(text="a"), hub.Part(raw=b"b")], [hub.Part(text="a"), hub.Part(raw=b"b")]),
        (hub.Message(message_id="m", parts=[hub.Part(text="m")]), [hub.Part(text="m")]),
    ],
)
@each("task", [False, True])
async def test_it_may_return_anything_that_makes_parts(given: Any, parts: list[hub.Part], task: bool) -> None:
    @agent(task=task)
    async def giving(_: str) -> Any:
        return given

    answer = await Talk(giving).send("x")
    if not task:
        assert list(answer.parts) == parts
    elif isinstance(given, hub.Message):
        assert list(answer.status.message.parts) == parts
    else:
        assert list(answer.artifacts[0].parts) == parts


@pytest.mark.parametrize("given", [None, object(), {"a": object()}])
async def test_values_that_are_no_parts_are_an_error(given: Any) -> None:
    @agent
    async def giving(_: str) -> Any:
        return given

    with rejected(Reason.INVALID_AGENT_RESPONSE if given is None else Reason.INTERNAL_ERROR):
        await Talk(giving).send("x")


async def test_a_function_with_task_works_on_a_task() -> None:
    @agent(task=True)
    async def working(text: str) -> str:
        return text.upper()

    events = await Talk(working).stream("abc")
    assert shapes(events) == [("task", SUBMITTED), WORKING, "ABC", COMPLETED]
    assert (events[2].append, events[2].last_chunk) == (False, True)


async def test_yielded_values_are_the_chunks_of_one_artifact() -> None:
    events = await Talk(slowly).stream("Oslo")
    assert shapes(events) == [("task", SUBMITTED), WORKING, "looking… ", "Oslo: ", "21 °C", COMPLETED]
    chunks = events[2:5]
    assert [chunk.append for chunk in chunks] == [False, True, True]
    assert len({chunk.artifact.artifact_id for chunk in chunks}) == 1
    task = await Talk(slowly).send("Oslo")
    assert [part.text for part in task.artifacts[0].parts] == ["looking… ", "Oslo: ", "21 °C"]


async def test_a_generator_may_yield_events_and_messages_too() -> None:
    @agent
    async def full(run: Run) -> AsyncIterator[Any]:
        yield run.reply("thinking")
        yield run.artifact("own", artifact_id="own")
        yield {"n": 7}
        yield run.status("rejected", "not today")

    events = await Talk(full).stream("x")
    assert shapes(events) == [("task", SUBMITTED), WORKING, WORKING, "own", "", REJECTED]
    assert events[2].status.message.parts[0].text == "thinking"
    assert events[4].artifact.parts[0].data.struct_value["n"] == 7


async def test_a_generator_may_ask_and_is_asked_again() -> None:
    @agent
    async def asking(run: Run) -> AsyncIterator[Any]:
        if run.task is None:
            yield run.status("input-required", "which?")
        else:
            yield f"{run.text} of {len(run.history)}"

    talk = Talk(asking)
    task = await talk.send("x")
    assert task.status.state == INPUT
    done = await talk.send("blue", task_id=task.id, message_id="m-2")
    assert (done.status.state, done.artifacts[0].parts[0].text) == (COMPLETED, "blue of 3")


async def test_a_generator_that_yields_nothing_completes() -> None:
    @agent
    async def silent(_: Run) -> AsyncIterator[str]:
        for text in ():
            yield text

    task = await Talk(silent).send("x")
    assert (task.status.state, len(task.artifacts)) == (COMPLETED, 0)


async def test_an_empty_chunk_is_not_dropped_and_none_fails() -> None:
    @agent
    async def odd(text: str) -> AsyncIterator[Any]:
        yield ""
        if text == "none":
            yield None

    assert [part.text for part in (await Talk(odd).send("x")).artifacts[0].parts] == [""]
    assert (await Talk(odd).send("none")).status.state == FAILED


@pytest.mark.parametrize("task", [False, True])
async def test_errors_of_the_protocol_reach_the_caller_or_fail_the_task(task: bool) -> None:
    @agent(task=task)
    async def rejecting(_: str) -> str:
        raise A2AError(Reason.UNAUTHENTICATED, "who are you?")

    if task:
        failed = await Talk(rejecting).send("x")
        assert (failed.status.state, failed.status.message.parts[0].text) == (FAILED, "who are you?")
    else:
        with rejected(Reason.UNAUTHENTICATED):
            await Talk(rejecting).send("x")


class Foreign(BaseException):
    """As the exceptions with which other concurrency libraries cancel."""


def group(text: str) -> BaseException:
    return BaseExceptionGroup(text, [Foreign(text)])


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, Foreign, group])
@pytest.mark.parametrize("kind", ["direct", "task", "generator"])
async def test_other_errors_say_nothing(
    kind: str, error: Callable[[str], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def function(_: str) -> str:
        raise error("a secret of the agent")

    async def generator(_: str) -> AsyncIterator[str]:
        yield "first"
        raise error("a secret of the agent")

    talk = Talk(agent(generator) if kind == "generator" else agent(task=kind == "task")(function))
    if kind == "direct":
        with rejected(Reason.INTERNAL_ERROR) as caught:
            await talk.send("x")
        assert "secret" not in str(caught.value)
    else:
        task = await talk.send("x")
        assert task.status.state == FAILED
        assert "secret" not in str(task)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "a secret of the agent" in caplog.text


async def test_the_parameter_decides_the_argument() -> None:
    @agent
    async def by_name(run) -> str:
        return type(run).__name__

    @agent
    async def by_annotation(given: hosting.Run) -> str:
        return type(given).__name__

    @agent
    async def by_text_annotation(given: "hosting.Run") -> str:  # noqa: UP037
        return type(given).__name__

    @agent
    async def by_union(given: Run | None) -> str:
        return type(given).__name__

    @agent
    async def by_default(given: Optional["Run"] = None) -> str:  # noqa: UP045, UP037
        return type(given).__name__

    @agent
    async def a_text_called_run(run: str) -> str:
        return type(run).__name__

    @agent
    async def bare(given) -> str:
        return type(given).__name__

    @agent
    async def nothing() -> str:
        return "nothing"

    @agent
    async def with_default(text: str, unit: str = "°C") -> str:
        return text + unit

    @agent
    async def text_and_run(text: str, run: Run) -> str:
        return f"{text} {type(run).__name__}"

    @agent
    def run_and_text(given: Run, text: str) -> str:
        return f"{text} {type(given).__name__}"

    @agent
    async def text_and_perhaps_run(text: str = "none", given: Run | None = None, more: int = 3) -> str:
        return f"{text} {type(given).__name__} {more}"

    @agent
    async def run_and_default(run: Run, count: int = 3) -> str:
        return f"{type(run).__name__} {count}"

    for made, expected in (
        (by_name, "Run"),
        (by_annotation, "Run"),
        (by_text_annotation, "Run"),
        (by_union, "Run"),
        (by_default, "Run"),
        (a_text_called_run, "str"),
        (bare, "str"),
        (nothing, "nothing"),
        (with_default, "x°C"),
        (text_and_run, "x Run"),
        (run_and_text, "x Run"),
        (text_and_perhaps_run, "none Run 3"),
        (run_and_default, "Run 3"),
    ):
        assert (await Talk(made).send("x")).parts[0].text == expected


@each(
    ("annotation", "expected"),
    [
        (Run | None, "Run"),
        (Optional["Run"], "Run"),
        (Annotated[Run, "the run"], "Run"),
        ("Run", "Run"),
        ("None | a2a_bridge.Run", "Run"),
        ("Optional['Run']", "Run"),
        ("typing.Union[None, 'Run']", "Run"),
        (str | None, "str"),
        (Annotated[str, "Run"], "str"),
        ("Annotated[str, 'The Run', 'this | Run |']", "str"),
        ("typing.Annotated[Run, 'the run'] | None", "Run"),
    ],
)
async def test_annotations_of_a_run(annotation: Any, expected: str) -> None:
    async def function(given):  # type: ignore[no-untyped-def]
        return type(given).__name__

    function.__annotations__["given"] = annotation
    assert (await Talk(agent(function)).send("x")).parts[0].text == expected


def test_invalid_agents_are_rejected_at_once() -> None:
    async def greedy(one: str, two: str) -> str:
        return one + two

    for wrong in (greedy, "a text", Talk):
        with pytest.raises(TypeError):
            agent(wrong)  # type: ignore[call-overload]


def test_an_object_that_is_no_executor_is_rejected() -> None:
    class Greedy:
        async def execute(self, one: Any, two: Any) -> None: ...

    with pytest.raises(TypeError, match=r"Greedy\.execute has to take one argument"):
        Agent(Greedy(), name="x")
    with pytest.raises(TypeError, match=r"no method `execute"):
        Agent(object(), name="x")


WHO: ContextVar[str] = ContextVar("who", default="nobody")


def _where() -> str:
    return f"{WHO.get()} {threading.current_thread() is threading.main_thread()}"


@pytest.mark.parametrize("task", [False, True])
async def test_a_synchronous_function_runs_in_a_thread_with_its_context(task: bool) -> None:
    @agent(task=task)
    def echo(text: str) -> str:
        return f"{text} {_where()}"

    token = WHO.set("alice")
    answer = await Talk(echo).send("x")
    WHO.reset(token)
    parts = answer.artifacts[0].parts if task else answer.parts
    assert parts[0].text == "x alice False"


async def test_a_synchronous_generator_stays_in_one_thread() -> None:
    threads: list[threading.Thread] = []

    @agent
    def count(text: str) -> Iterator[str]:
        for number in range(100):
            threads.append(threading.current_thread())
            yield f"{text}{number}"

    task = await Talk(count).send("x")
    assert [part.text for part in task.artifacts[0].parts] == [f"x{number}" for number in range(100)]
    assert len(set(threads)) == 1


async def test_the_loop_continues_while_synchronous_functions_block() -> None:
    go = threading.Barrier(3)

    @agent
    def slow(text: str) -> str:
        go.wait(PATIENCE)
        return text

    talk = Talk(slow)
    sending = [asyncio.create_task(talk.send(text, message_id=text)) for text in "ab"]
    await asyncio.to_thread(go.wait, PATIENCE)
    assert [(await one).parts[0].text for one in sending] == ["a", "b"]


@pytest.mark.parametrize("kind", ["function", "generator"])
async def test_a_synchronous_function_is_notified_of_a_cancellation_and_not_awaited(kind: str) -> None:
    begun, told, ended = threading.Event(), threading.Event(), threading.Event()

    def blocks(run: Run) -> str:
        begun.set()
        told.wait(PATIENCE)
        assert run.cancelled
        ended.set()
        return "too late"

    def function(run: Run) -> str:
        return blocks(run)

    def generator(run: Run) -> Iterator[str]:
        yield "begun"
        yield blocks(run)

    made = agent(task=True)(function) if kind == "function" else agent(generator)
    talk = Talk(made)
    task = await talk.send("x", configuration=IMMEDIATELY)
    await asyncio.to_thread(begun.wait, PATIENCE)
    assert (await talk.cancel(task.id)).status.state == CANCELED
    told.set()
    await asyncio.to_thread(ended.wait, PATIENCE)
    assert "too late" not in str(await talk.get(task.id))


@pytest.mark.parametrize(
    "error", [ValueError("a secret"), StopIteration(), SystemExit(3), KeyboardInterrupt()]
)
async def test_errors_of_synchronous_functions_are_those_of_the_agent(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    @agent
    def direct(_: str) -> str:
        raise error

    @agent
    def generator(_: str) -> Iterator[str]:
        yield "one"
        raise error

    with rejected(Reason.INTERNAL_ERROR):
        await Talk(direct).send("x")
    task = await Talk(generator).send("x")
    assert task.status.state == FAILED
    assert "secret" not in str(task)
    assert len(caplog.records) == 2


async def test_so_many_threads_and_no_more() -> None:
    running: list[str] = []
    most: list[int] = []
    meeting = threading.Barrier(3)

    def count(run: Run) -> str:
        running.append(run.text)
        most.append(len(running))
        meeting.wait(PATIENCE)
        running.remove(run.text)
        meeting.wait(PATIENCE)
        return run.text

    threads = Threads(count, 3)
    run = Run(request("x"), CallContext(), "t", "c")
    assert await asyncio.gather(*(threads.result(run, (run,)) for _ in range(18))) == ["x"] * 18
    assert max(most) == 3


async def test_who_leaves_when_its_thread_is_free_leaves_it_to_the_next() -> None:
    over = threading.Event()

    def work(run: Run) -> str:
        over.wait(PATIENCE)
        return run.text

    threads = Threads(work, 1)
    run = Run(request("x"), CallContext(), "t", "c")
    calls = [asyncio.create_task(threads.result(run, (run,))) for _ in range(3)]
    while len(threads._waiting) < 2:  # noqa: ASYNC110  there is no notification
        await asyncio.sleep(0)
    on_end = threads._on_end

    def leave_at_the_end() -> None:
        on_end()
        calls[1].cancel()

    threads._on_end = leave_at_the_end  # type: ignore[method-assign]
    over.set()
    async with asyncio.timeout(PATIENCE):
        assert await calls[2] == "x"
    assert calls[1].cancelled()


async def test_the_text_of_a_message_is_all_its_texts() -> None:
    @agent
    async def echo(text: str) -> str:
        return text

    parts = [hub.Part(text="a"), hub.Part(raw=b"x"), hub.Part(text="b")]
    assert (await Talk(echo).send(parts=parts)).parts[0].text == "ab"
