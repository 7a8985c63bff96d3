"""The adapter of Pydantic AI over a stand-in of its interface (fakes/pydantic_ai). Real agents: `make frameworks`."""

from types import SimpleNamespace
from typing import Any

import pytest

from a2a_bridge import Agent, Run, connect
from a2a_bridge.ext import NoAgentError, hub
from a2a_bridge.testing.contracts import AdapterContract
from a2a_bridge.testing.each import each

pytestmark = pytest.mark.usefixtures("fakes")


def scripted(**options: Any) -> Any:
    import pydantic_ai

    return pydantic_ai.Agent(**options)


class TestContract(AdapterContract):
    @pytest.fixture
    def agent(self, fakes: Any) -> Agent:
        return Agent.of(scripted())


def test_an_object_that_is_no_agent_is_named() -> None:
    from pydantic_ai import BinaryContent

    with pytest.raises(NoAgentError, match=r"BinaryContent is an object of Pydantic AI, .*: give an Agent"):
        Agent.of(BinaryContent(b"", "text/plain"))


async def test_dependencies_are_made_of_the_run() -> None:
    thing = scripted()

    async def deps(run: Run) -> str:
        return f"deps of {run.text}"

    for made in (deps, lambda run: f"deps of {run.text}"):
        agent = Agent.of(thing, deps=made, description="A desk.")
        async with connect(agent) as peer:
            await peer.send("hi")
    assert thing.deps == ["deps of hi"] * 2
    assert (agent.card.name, agent.card.description) == ("scripted", "A desk.")


@each(
    ("text", "output", "found"),
    [
        ("a", {"city": "Oslo"}, [{"city": "Oslo"}]),
        ("a", "HEARD A", ["HEARD A"]),
        ("a", "heard a", ["heard a"]),
        ("a", None, [""]),
    ],
)
async def test_structured_output_is_data_and_text_is_told_once(
    text: str, output: Any, found: list[Any]
) -> None:
    assert await told(scripted(outputs={"heard a": output}), text) == found


async def test_the_json_of_a_structured_output_is_not_streamed() -> None:
    from pydantic_ai import NativeOutput

    thing = scripted(output_type=[NativeOutput()], outputs={"heard a": {"city": "Oslo"}})
    assert await told(thing, "a") == [{"city": "Oslo"}]
    assert await told(thing, "b") == ["heard b"]


async def told(thing: Any, text: str) -> list[Any]:
    """The content of each artifact."""
    from a2a_bridge_adapters.content import json_of

    async with connect(Agent.of(thing)) as peer:
        task = (await peer.send(text)).task
    assert task is not None
    return [
        json_of(one.parts[0]) if one.parts[0].HasField("data") else "".join(part.text for part in one.parts)
        for one in task.artifacts
    ]


async def test_a_file_of_the_model_is_told_once() -> None:
    from pydantic_ai import BinaryContent

    picture = BinaryContent(b"\x89PNG", "image/png")
    for outputs, count in (({"": picture}, 1), ({"heard x": picture}, 1)):
        async with connect(Agent.of(scripted(outputs=outputs))) as peer:
            task = (await peer.send("picture" if "" in outputs else "x")).task
        assert task is not None
        files = [part for one in task.artifacts for part in one.parts if part.HasField("raw")]
        assert [(one.raw, one.media_type) for one in files] == [(b"\x89PNG", "image/png")] * count


@each(
    ("part", "kind", "media_type"),
    [
        (hub.Part(url="https://x.example/a.png"), "ImageUrl", "image/png"),
        (hub.Part(url="https://x.example/a", media_type="audio/mpeg"), "AudioUrl", "audio/mpeg"),
        (hub.Part(url="https://x.example/a.mp4?b=1"), "VideoUrl", "video/mp4"),
        (hub.Part(url="https://x.example/a"), "DocumentUrl", "application/octet-stream"),
        (hub.Part(raw=b"x", filename="a.pdf"), "BinaryContent", "application/pdf"),
    ],
)
def test_files_as_content(part: hub.Part, kind: str, media_type: str) -> None:
    from a2a_bridge_adapters.pydantic_ai import content_of

    made = content_of(part)
    assert (type(made).__name__, made.media_type) == (kind, media_type)


async def test_a_failed_turn_leaves_no_history_and_a_late_answer_reaches_nobody() -> None:
    async with connect(Agent.of(scripted())) as peer:
        first = (await peer.send("approve")).task
        assert first is not None
        where = first.context_id
        assert (await peer.send("crash", context_id=where)).state == "failed"
        assert (await peer.send("yes", task=first)).state == "failed"
        # The same id of a call, in another task.
        second = (await peer.send("approve", context_id=where)).task
        assert (await peer.send("yes", task=second)).text == "done: deleted x"
        assert (await peer.send("recall", context_id=where)).text == "approve,approve,recall"


@each(
    ("answer", "runs", "known"),
    [
        ("yes", True, "deleted x"),
        ("yes", False, "The user approved the call. It may have run: its result is not known."),
        ("too much", False, "too much"),
        ("no", False, "The user denied the call."),
    ],
)
async def test_a_failed_turn_keeps_the_results_of_the_calls_that_were_answered(
    answer: str, runs: bool, known: str
) -> None:
    thing = scripted()
    agent, events = Agent.of(thing), thing._events

    async def crash(*arguments: Any) -> Any:
        async for event in events(*arguments):
            if runs:
                yield event
            raise RuntimeError("crashed")

    async with connect(agent) as peer:
        asked = (await peer.send("approve")).task
        thing._events = crash
        assert (await peer.send(answer, task=asked)).state == "failed"
    (history,) = agent.executor.conversations._states.values()  # type: ignore[attr-defined]
    assert [part.content for part in history.messages[-1].parts] == [known]
    assert history.open_calls == ()


@each(
    ("change", "guarded"),
    [
        ({}, False),
        ({"_output_validators": [str]}, True),
        ({"output_type": [str, "TextOutput"]}, True),
        ({"output_type": len}, True),
        ({"capabilities": ["Logging"]}, False),
        ({"capabilities": ["Redacting"]}, True),
        ({"capabilities": ["hooks before"]}, False),
        ({"capabilities": ["hooks after"]}, True),
    ],
)
def test_what_may_change_the_output(change: Any, guarded: bool) -> None:
    from pydantic_ai import TextOutput
    from pydantic_ai.capabilities import AbstractCapability, Hooks

    from a2a_bridge_adapters.pydantic_ai import is_guarded

    class Logging(AbstractCapability): ...

    class Redacting(AbstractCapability):
        async def after_model_request(self, *given: Any, **named: Any) -> Any: ...

    made: dict[str, Any] = {
        "TextOutput": TextOutput(str),
        "Logging": Logging(),
        "Redacting": Redacting(),
        "hooks before": Hooks({"before_model_request": [len]}),
        "hooks after": Hooks({"after_model_request": [len]}),
    }
    thing = scripted()
    for name, value in change.items():
        found = [made.get(one, one) for one in value] if isinstance(value, list) else value
        setattr(thing, name, found)
    thing.root_capability.capabilities = getattr(thing, "capabilities", [])
    assert is_guarded(thing) == guarded
    assert is_guarded(SimpleNamespace(wrapped=thing)) == guarded


async def test_a_forgotten_conversation_takes_no_answer() -> None:
    async with connect(Agent.of(scripted(), conversations=1)) as peer:
        asked = (await peer.send("approve")).task
        await peer.send("hello")
        late = await peer.send("yes", task=asked)
    assert (late.state, late.text.partition(":")[0]) == (
        "failed",
        "The question of this task is no longer open",
    )
