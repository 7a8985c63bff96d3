"""Programs as agents: `Agent(Program("./agent.sh"))`, and `a2a-bridge serve --exec`.

A program gets the text of a message on stdin and writes its answer on stdout. Everything else of the protocol
is in docs/how-to/serve-a-program.md.

Rules:
1. Each message starts the program once, without a shell, in its own process group; `process.py` ends it.
2. Of the environment it gets FIXED, the variables that are named, and those of the run.
3. Nothing that a program writes on stderr, and no exit code, reaches a caller.
4. A program of a server that was killed is not continued: the engine fails its task.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from weakref import WeakKeyDictionary

from a2a_bridge.codec import EncodeError
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.core.option_classes import ProgramOptions
from a2a_bridge.hosting.agent_content import ExecutorError
from a2a_bridge.hosting.executor import AgentExecutor, Event, Run
from a2a_bridge.hosting.executor_driver import CRASHED
from a2a_bridge.hosting.limits import TOO_LONG
from a2a_bridge.hosting.programs.folder import OUT, OutputTooLargeError, RunFolder, remove_leftovers
from a2a_bridge.hosting.programs.output import FileName, Output
from a2a_bridge.hosting.programs.process import Process, printable
from a2a_bridge.pb import lf_a2a_v1 as hub

log = logging.getLogger("a2a_bridge.hosting.programs")

#: variables of the server that every program gets
FIXED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
#: the beginning of the names of variables of a run, which a server cannot pass on
OWN = "A2A_"
#: the exit code of a program that asks the caller (EX_TEMPFAIL of sysexits.h)
ASKS = 75
#: interpreters that ignore a carriage return after their options
_TAKE_CR = ("perl", "ruby")
_BOM = b"\xef\xbb\xbf"
_DEFAULTS = ProgramOptions()


class ProgramError(ValueError):
    """A program that cannot be started, or options that it cannot be run with."""


class Program(AgentExecutor):
    """An executor that runs a program for each message: see docs/how-to/serve-a-program.md.

    words: the program and its arguments. env: names of further variables of this process that it gets.
    concurrency: programs at the same time; further runs wait. timeout: seconds of one run; 0: no limit.
    max_output: bytes of one run, on stdout and in files.

    Raises ProgramError for a program that does not exist, or that the system cannot start.
    """

    def __init__(
        self,
        program: str | os.PathLike[str],
        *arguments: str | os.PathLike[str],
        env: Sequence[str] = (),
        concurrency: int = _DEFAULTS.concurrency,
        timeout: float = _DEFAULTS.timeout,
        max_output: int = _DEFAULTS.max_output,
    ) -> None:
        if sys.platform == "win32":
            raise ProgramError("programs are served on Linux and macOS only")
        if isinstance(env, str):
            raise ProgramError(f"env is a list of names: [{env!r}]")
        self.words = [os.fspath(word) for word in (program, *arguments)]
        if any("\0" in word for word in self.words):
            raise ProgramError("a word of a program cannot have a NUL in it")
        self._executable = find_program(self.words[0])
        self._names = tuple(dict.fromkeys((*FIXED, *map(_checked, env))))
        if concurrency < 1:
            raise ProgramError("concurrency has to be at least 1")
        self._concurrency = concurrency
        self._timeout = timeout
        self._max_output = max_output
        #: of each event loop: a semaphore belongs to one
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """The name of the script that an interpreter runs, else of the program, without its suffix."""
        scripts = [word for word in self.words[1:] if not word.startswith("-") and Path(word).is_file()]
        return Path(scripts[0] if scripts else self.words[0]).stem or "program"

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        """Runs the program for a message, and yields its output as it comes."""
        if run.is_new:
            yield run.start()
        slots = self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._concurrency))
        async with slots:
            yield run.status(hub.TASK_STATE_WORKING)
            folder = await _folder_of(run)
            at_work = _Work(run, folder, self._max_output)
            try:
                async with aclosing(self._events(at_work)) as events:
                    async for event in events:
                        yield event
            finally:
                await asyncio.shield(asyncio.to_thread(folder.remove))
            # Last: a task that has ended has no process and no file any more.
            yield at_work.end

    async def _events(self, at_work: _Work) -> AsyncGenerator[Event]:
        """The events of a program, which is started here and has ended after them. Raises ExecutorError."""
        folder = at_work.folder
        environment = {name: os.environ[name] for name in self._names if name in os.environ}
        environment |= at_work.variables()
        try:
            process = Process.start(self.words, self._executable, environment, folder.text)
        except OSError as error:
            log.error("%s cannot be started: %s", printable(self.words[0]), error)  # noqa: TRY400
            return
        try:
            async with aclosing(at_work.events(process, self._timeout)) as events:
                async for event in events:
                    yield event
        finally:
            await process.close()


async def _folder_of(run: Run) -> RunFolder:
    """The files of a run, made in a thread, which goes on when the run is cancelled. Raises OSError, and
    INVALID_PARAMS for a message with a number that JSON does not have.
    """
    making = asyncio.ensure_future(asyncio.to_thread(RunFolder, run))
    try:
        return await asyncio.shield(making)
    except EncodeError as error:
        raise invalid_params(f"message.{error.path}", error.problem) from None
    except asyncio.CancelledError:
        making.add_done_callback(lambda made: None if made.exception() else made.result().remove())
        raise


class _Work:
    """One run of a program."""

    def __init__(self, run: Run, folder: RunFolder, max_output: int) -> None:
        self._run = run
        self.folder = folder
        #: the state in which the program leaves its task
        self.end: Event = run.status(hub.TASK_STATE_FAILED, CRASHED)
        self._most = self._left = max_output
        self._output = Output(run, f"a2a-events-1 {secrets.token_hex(16)}")
        self._sent: set[str] = set()
        self._late = False

    def variables(self) -> dict[str, str]:
        run, folder = self._run, self.folder
        conversation = run.conversation
        turns = sum(one.role == hub.ROLE_USER for one in run.history)
        found = {
            "A2A_TASK_ID": run.task_id,
            "A2A_CONTEXT_ID": run.context_id,
            "A2A_TENANT": run.context.tenant,
            "A2A_USER": conversation.principal,
            "A2A_CONVERSATION": conversation.digest[:32],
            "A2A_TURN": str(max(turns, 1)),
            "A2A_REQUEST": str(folder.request),
            "A2A_IN": str(folder.into),
            OUT: str(folder.out),
            "A2A_QUESTION": str(folder.question),
            "A2A_EVENTS": self._output.token,
        }
        # A variable cannot have a NUL in it, and callers choose some of these.
        return {name: value.replace("\0", "\ufffd") for name, value in found.items()}

    async def events(self, process: Process, limit: float) -> AsyncGenerator[Event]:
        """The events of a running program, and then `end`. Raises ExecutorError."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(limit, self._expire, process) if limit > 0 else None
        try:
            last = False
            while not last:
                data = await process.read()
                last = not data
                self._spend(len(data))
                for event in self._output.feed(data, last=last):
                    yield await self._file(event) if isinstance(event, FileName) else event
            code = await process.wait()
            if not self._late and (state := self._state(code)) is not None:
                for name, content in await asyncio.to_thread(self.folder.read_files, self._left, self._sent):
                    yield self._artifact(_text(name), content)
                self.end = state
            else:
                self.end = self._failure(process, code, limit)
        except OutputTooLargeError as error:
            text = f"the output of the agent has more than {error.limit or f'{self._most} bytes'}"
            log.error("task %s: %s", self._run.task_id, text)  # noqa: TRY400
            self.end = self._run.status(hub.TASK_STATE_FAILED, text)
        finally:
            if timer is not None:
                timer.cancel()

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise OutputTooLargeError

    def _expire(self, process: Process) -> None:
        self._late = True
        process.stop()

    async def _file(self, event: FileName) -> Event:
        """The artifact of a file that is complete."""
        name = event.name
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise ExecutorError(f"a file of the program's output is not the name of one in ${OUT}")
        try:
            content = await asyncio.to_thread(self.folder.read_file, name, self._left)
        except OSError:
            raise ExecutorError(f"a file of the program's output is no regular file in ${OUT}") from None
        self._spend(len(content))
        self._sent.add(name)
        return self._artifact(name, content, event.media_type)

    def _artifact(self, name: str, content: bytes, media_type: str = "") -> Event:
        made = self._run.artifact(content, name=name)
        part = made.artifact.parts[0]
        part.filename = name
        part.media_type = media_type or part.media_type
        return made

    def _state(self, code: int) -> Event | None:
        """The state that a program leaves its task in by itself; None if it has failed."""
        output, run = self._output, self._run
        if output.error is not None:
            return None
        if code == ASKS or (code == 0 and output.question is not None):
            question = self.folder.read_question() if output.question is None else output.question
            content = [question] if question else []
            return run.status(hub.TASK_STATE_INPUT_REQUIRED, *content)
        return run.status(hub.TASK_STATE_COMPLETED, *output.messages) if code == 0 else None

    def _failure(self, process: Process, code: int, limit: float) -> Event:
        text = self._output.error
        if self._late:
            text, cause = TOO_LONG.format(limit), "it was stopped"
        else:
            cause = f"exit code {code}" if code >= 0 else f"signal {-code}"
        if text is None:
            text = CRASHED
            last = "; ".join(process.last_errors) or "nothing"
            log.error("the program of task %s failed: %s; stderr: %s", self._run.task_id, cause, last)
        else:
            log.warning("the program of task %s: %s: %s", self._run.task_id, cause, printable(text))
        return self._run.status(hub.TASK_STATE_FAILED, text)


def find_program(program: str) -> str:
    """The file of a program: a path, or a name on PATH. Raises ProgramError if it cannot be started."""
    path = shutil.which(program)
    if path is None:
        if os.sep not in program:
            here = f"; did you mean ./{program}?" if Path(program).is_file() else ""
            raise ProgramError(f"there is no program {program} on PATH{here}")
        reason = "is not executable" if Path(program).is_file() else "does not exist"
        raise ProgramError(f"{program} {reason}")
    path = str(Path(path).absolute())
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            beginning = file.read(256)
    except OSError:
        return path  # a program that may be run and not read
    if beginning[:2] == b"#!":
        _check_interpreter(program, beginning)
    elif beginning.startswith(_BOM):
        raise ProgramError(f"{program} begins with a byte order mark, which has to be taken out")
    elif beginning and all(32 <= one != 127 or one in b"\t\r\n\f" for one in beginning):
        raise ProgramError(f"{program} is a text without a first line such as #!/bin/sh")
    elif not beginning:
        raise ProgramError(f"{program} is empty")
    return path


def _check_interpreter(program: str, beginning: bytes) -> None:
    line = os.fsdecode(beginning[2:].partition(b"\n")[0])
    words = line.split()
    if line.endswith("\r") and not (words[1:] and Path(words[0]).name in _TAKE_CR):
        raise ProgramError(
            f"{program} has lines that end with \\r\\n, so its interpreter is {line.lstrip()!r}:"
            " write it with lines that end with \\n"
        )
    # A path: the system looks for no interpreter on PATH.
    if not words or not os.access(words[0], os.X_OK) or Path(words[0]).is_dir():
        raise ProgramError(f"{program} needs {' '.join(words[:1]) or 'an interpreter'}, which does not exist")
    others = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if Path(words[0]).name == "env" and others and shutil.which(others[0]) is None:
        raise ProgramError(f"{program} needs {others[0]}, which is not on PATH")


def _checked(name: str) -> str:
    """The name of a variable that may be passed on. Raises ProgramError."""
    if not name or "=" in name or "\0" in name:
        raise ProgramError("env has names of variables of this process, without their values")
    if name.startswith(OWN):
        raise ProgramError(
            f"{name} is not passed on: the variables {OWN}… are those of a run and of the bridge"
        )
    return name


def _text(name: str) -> str:
    """The name of a file, whose bytes may be no UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")


__all__ = ["ASKS", "FIXED", "Program", "ProgramError", "find_program", "remove_leftovers"]
