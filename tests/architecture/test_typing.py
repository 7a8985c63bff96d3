"""Type checkers see the right types of the protobuf classes and of executors; mypy stands for all of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.architecture.repository import BIN, ROOT, run
from tests.docs.pages import DOCS, blocks

if TYPE_CHECKING:
    from pathlib import Path

SNIPPET = """
from a2a_bridge.pb import google_protobuf, google_rpc, lf_a2a_v1

task = lf_a2a_v1.Task(id="t", status=lf_a2a_v1.TaskStatus(state=lf_a2a_v1.TASK_STATE_WORKING))
reveal_type(task)  # lf_a2a_v1.Task
reveal_type(task.id)  # str
reveal_type(task.status.state)  # lf_a2a_v1.TaskState
reveal_type(task.status.timestamp)  # google_protobuf.Timestamp
reveal_type(task.metadata)  # google_protobuf.Struct
reveal_type(task.artifacts[0].parts[0].raw)  # bytes
reveal_type(lf_a2a_v1.Task.FromString(b""))  # lf_a2a_v1.Task
reveal_type(lf_a2a_v1.Role.Name(1))  # str
reveal_type(google_rpc.BadRequest.FieldViolation().field)  # str
reveal_type(google_protobuf.Value().struct_value)  # google_protobuf.Struct
task.identifier  # error: attr-defined
lf_a2a_v1.Task(id=7)  # error: arg-type
"""


def test_mypy_sees_the_types_of_messages(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    done = run(BIN / "mypy", "--config-file", ROOT / "pyproject.toml", file)
    for number, line in enumerate(SNIPPET.splitlines(), 1):
        code, _, expected = line.partition("  # ")
        said = [text for text in done.stdout.splitlines() if f"snippet.py:{number}:" in text]
        if expected.startswith("error: "):
            assert any(text.endswith(f"[{expected.removeprefix('error: ')}]") for text in said), (code, said)
        elif expected:
            revealed = [match[1] for text in said if (match := re.search(r'Revealed type is "(.*?)"', text))]
            assert len(revealed) == 1, (code, said, done.stderr)
            short = revealed[0].removeprefix("builtins.").removeprefix("a2a_bridge.pb.")
            assert short == expected, code
        else:
            assert not said


EXECUTORS = """
from collections.abc import AsyncIterator
from a2a_bridge import Agent, Run
from a2a_bridge.ext import AgentEvent, AgentExecutor

class Subclass(AgentExecutor):
    async def execute(self, run: Run) -> AsyncIterator[AgentEvent]:
        yield run.start()

    async def cancel(self, run: Run) -> AsyncIterator[AgentEvent]:
        yield run.status("canceled")

class Empty: ...

Agent(Subclass())
Agent(Empty())
"""


def test_mypy_accepts_executors_without_optional_methods(tmp_path: Path) -> None:
    file = tmp_path / "executors.py"
    (block,) = (one for one in blocks(DOCS / "durability.md", "python") if "async def resume" in one.body)
    file.write_text(block.body + EXECUTORS)
    done = run(BIN / "mypy", "--config-file", ROOT / "pyproject.toml", file)
    (error,) = (line for line in done.stdout.splitlines() if ": error: " in line)
    assert 'has incompatible type "Empty"' in error
