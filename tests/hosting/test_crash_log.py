"""What the log says of an exception of the agent: its own frames, once."""

import json
import logging
import sys
from collections.abc import AsyncIterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import A2AError, Agent, Run, connect
from a2a_bridge.cli.log_setup import JsonFormat
from a2a_bridge.core import agent_traces

CODE = """
from library import deep

async def execute(run):
    if run.text == "deep":
        deep(lambda: 1 / 0)
    if run.text == "cause":
        try:
            deep(lambda: 1 / 0)
        except ZeroDivisionError as error:
            raise LookupError("nothing found") from error
    raise ValueError("first line\\nsecond line")
"""
LIBRARY = """
def deep(call, depth=40):
    return call() if not depth else deep(call, depth - 1)
"""


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent whose code is in one folder, and a library in another, which counts as installed."""
    installed = tmp_path / "installed"
    installed.mkdir()
    monkeypatch.setattr(agent_traces, "INSTALLED", (str(installed),))
    names: dict[str, Any] = {}
    for path, code in ((installed / "library.py", LIBRARY), (tmp_path / "desk.py", CODE)):
        path.write_text(code)
        found = spec_from_file_location(path.stem, path)
        assert found is not None
        assert found.loader is not None
        module = module_from_spec(found)
        monkeypatch.setitem(sys.modules, path.stem, module)
        found.loader.exec_module(module)
        names |= vars(module)

    class Executor:
        async def execute(self, run: Run) -> AsyncIterator[Any]:
            yield run.status("working")
            await names["execute"](run)

    return Agent(Executor(), name="desk")


async def said(agent: Agent, *texts: str) -> None:
    async with connect(agent) as peer:
        for text in texts:
            await peer.send(text)


async def test_a_trace_has_the_frames_of_the_agent_and_the_innermost(
    failing: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    await said(failing, "deep", "cause")
    first, second = (one.exc_text or "" for one in caplog.records)
    assert first.count('File "') == 3  # and that of the executor above
    assert 'desk.py", line 6, in execute' in first
    assert 'desk.py", line 6, in <lambda>' in first
    assert first.endswith(
        "ZeroDivisionError: division by zero\n(41 frames of libraries are left out; --log-level debug logs all)"
    )
    assert "a2a_bridge" not in first.replace(str(Path(__file__).parent), "")
    assert "The above exception was the direct cause" in second
    assert second.index("ZeroDivisionError") < second.index("LookupError: nothing found")
    assert second.count("library.py") == 0


async def test_the_same_crash_is_one_line_the_next_time(
    failing: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    await said(failing, "", "", "deep", "")
    assert [one.exc_text is not None for one in caplog.records] == [True, False, True, False]
    message = caplog.records[3].getMessage()
    assert message.endswith(
        "failed, as before (3 times so far): ValueError: first line (" + message.rpartition("(")[2]
    )
    assert message.endswith("desk.py:12 in execute)")


async def test_a_logger_at_debug_has_the_whole_trace_each_time(
    failing: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "a2a_bridge.hosting"):
        await said(failing, "deep", "deep")
    crashes = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.filename for one in crashes] == ["executor_driver.py"] * 2
    assert all(one.exc_info and "line repeated" in str(one.exc_text) for one in crashes)


async def test_handlers_get_the_exception_and_a_line_of_json_the_short_trace(
    failing: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    await said(failing, "deep")
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
    assert (record.filename, record.funcName) == ("executor_driver.py", None)
    assert json.loads(JsonFormat().format(record))["exception"] == record.exc_text


async def test_a_function_that_answers_is_logged_in_the_same_way(caplog: pytest.LogCaptureFixture) -> None:
    from a2a_bridge import agent

    @agent
    async def desk(text: str) -> str:
        raise KeyError(text)

    async with connect(desk) as peer:
        for _ in range(2):
            with pytest.raises(A2AError):
                await peer.send("hi")
    texts = [one.getMessage() for one in caplog.records]
    assert texts[0] == "the agent failed to answer a message"
    assert texts[1].startswith(
        "the agent failed to answer a message, as before (2 times so far): KeyError: 'hi' ("
    )
