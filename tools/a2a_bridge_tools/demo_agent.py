"""The agent of `a2a-bridge server`: it repeats what it hears, and knows the standard prefixes of A2A's
conformance documents as the first word of a text (`tck-…`, ACTS 11.2; only the documents have
`tck-auth-required`). A reply to a question completes the task. A task that began with `tck-multi-turn` takes
replies until one is `done`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from a2a_bridge.hosting import Agent, Run
from a2a_bridge.pb import lf_a2a_v1 as hub

#: seconds of long work
LONG = 3.0
_FILE = hub.Part(raw=b"made by the demo agent\n", media_type="text/plain", filename="output.txt")
_LINK = hub.Part(url="https://example.com/output.txt", media_type="text/plain", filename="output.txt")

#: what a run yields; a number is a pause in seconds
Steps = Callable[[Run], Sequence[Any]]


def _with(*content: Any) -> Steps:
    """A task that works, has an artifact, and completes."""
    return lambda run: [run.status("working"), run.artifact(*content), run.status("completed")]


def _chunks(run: Run) -> Sequence[Any]:
    first = run.artifact("chunk-1 ", artifact_id="chunks", last=False)
    middle = run.artifact("chunk-2 ", artifact_id="chunks", append=True, last=False)
    last = run.artifact("chunk-3", artifact_id="chunks", append=True)
    return [run.status("working"), first, middle, last, run.status("completed")]


def _ask(state: str, question: str) -> Steps:
    """A task that asks once, and completes with the reply."""
    return lambda run: [run.status(state, question)]


#: first word of a text -> what the agent does
BEHAVIOURS: dict[str, Steps] = {
    "tck-complete-task": lambda run: [run.status("completed", "Done")],
    "tck-input-required": _ask("input-required", "What else?"),
    "tck-auth-required": _ask("auth-required", "Please authorise me, then answer"),
    "tck-reject-task": lambda run: [run.status("rejected", "Rejected, as asked")],
    "tck-message-response": lambda run: [run.reply("A direct answer")],
    "tck-artifact-text": _with("Generated text content"),
    "tck-artifact-file": _with(_FILE),
    "tck-artifact-file-url": _with(_LINK),
    "tck-artifact-data": _with({"key": "value", "count": 42}),
    "tck-long-running": lambda run: [
        run.status("working"),
        LONG,
        run.artifact("The result of long work"),
        run.status("completed", "Done at last"),
    ],
    "tck-multi-turn": _ask("input-required", "Go on, or say: done"),
    "tck-cancel": lambda run: [run.status("working"), None],
    "tck-stream-basic": _with("Streamed content"),
    "tck-stream-chunked": _chunks,
    "tck-task-failure": lambda run: [run.status("failed", "Failed, as asked")],
}


def _echo(run: Run) -> Sequence[Any]:
    pieces = list(run.message.parts)
    return [run.status("working"), run.artifact(pieces, name="echo"), run.status("completed")]


class Demo:
    """Plays the behaviour that a message names."""

    async def execute(self, run: Run, /) -> AsyncIterator[Any]:
        word = next(iter(run.text.split()), "")
        steps = BEHAVIOURS.get(word, _echo)
        if len(run.history) > 1:  # the reply to a question
            steps = _with(f"Thank you: {run.text}")
            begun = run.history[0].parts[0].text if run.history[0].parts else ""
            if begun.startswith("tck-multi-turn") and word != "done":
                steps = BEHAVIOURS["tck-multi-turn"]
        for step in steps(run):
            if isinstance(step, float):
                await asyncio.sleep(step)
            elif step is None:
                await asyncio.Event().wait()  # until it is canceled
            else:
                yield step


agent = Agent(
    Demo(),
    name="Demo",
    description="Repeats what it hears; the first word of a text (tck-…) asks for another behaviour",
    push_notifications=True,
)
