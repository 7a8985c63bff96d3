"""Editors and type checkers see the right types of the models; mypy stands for all of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.architecture.repository import BIN, ROOT, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sdk  # needs mypy, which the environments without the SDK lack

SNIPPET = """
from a2a_bridge.dialects.v0_2_5 import models as old
from a2a_bridge.dialects.v0_3 import models

message = models.Message(message_id="m", role=models.Role.user, parts=[models.Part(models.TextPart(text="a"))])
reveal_type(message.parts[0].root)  # Union[TextPart, FilePart, DataPart]
reveal_type(message.task_id)  # Union[str, None]
reveal_type(models.read(models.Task, {}).status.state)  # TaskState
reveal_type(models.read(models.SendMessageSuccessResponse, {}).result)  # Union[Task, Message]
reveal_type(models.read(models.DataPart, {}).data)  # dict[str, Any]
reveal_type(old.read(old.AgentCard, {}).skills[0].tags)  # list[str]
models.Message(message_id="m", role=models.Role.user)  # error: call-arg
models.TextPart(text=1)  # error: arg-type
message.identifier  # error: attr-defined
old.read(old.AgentCard, {}).signatures  # error: attr-defined
old.MutualTLSSecurityScheme()  # error: attr-defined
"""


@pytest.mark.process
def test_mypy_sees_the_types_of_models(tmp_path: Path) -> None:
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
            short = re.sub(r"(?:\w+\.)+(?=[A-Za-z])", "", revealed[0])
            assert members(short) == members(expected), code
        else:
            assert not said, said


def members(shown: str) -> set[str]:
    """The members of a union, in the notation of any version of mypy."""
    match = re.fullmatch(r"Union\[(.*)\]", shown)
    return set(re.split(r", ", match[1])) if match else set(shown.split(" | "))
