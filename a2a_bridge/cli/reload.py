"""New configuration for a running server: on SIGHUP, and with `--reload` when the file changes. `watch_code`
looks at the code of an agent in the same way.

Rules:
1. A file that is not valid changes nothing; one line of the log says why.
2. Only options that are declared as `live` can change. Others keep their values until the next start, and one
   warning names them. If one of these says who callers are, the access rules do not change either: new rules
   may mean other callers by the same names.
3. All changes take effect together, or none: if one cannot be made, those before it are undone.
4. Listeners stay, and running calls finish as they began, but for those that new access rules do not allow.
5. A change of the file counts when the file has been still for one interval, or for three if the file is
   shorter than before: it may be half written. Processes that are started with the file get the content that
   was accepted (`text`), not the file.
6. Rules, authentication and agents that a change takes away are a warning.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NamedTuple

import typer

from a2a_bridge.cli.config_file import ConfigError
from a2a_bridge.cli.reading import Reading
from a2a_bridge.cli.server_flags import EdgeFlags
from a2a_bridge.cli.target import BadTargetError
from a2a_bridge.core.options import options_of

logger = logging.getLogger(__name__)

#: takes the old and the new flags of the command. Raises any error if the change cannot be made
Applier = Callable[[Any, Any], Awaitable[None] | None]

#: options that say who a caller is
_WHO = frozenset({*options_of(EdgeFlags), "ssl_ca_certs", "ssl_cert_reqs", "forwarded_allow_ips"})

#: Windows has none
_HANGUP: int | None = getattr(signal, "SIGHUP", None)

#: seconds between two looks at the file
_PAUSE = 1.0
#: the same for code, which somebody is working on
_CODE_PAUSE = 0.25
#: folders that have no code of the agent
_NO_CODE = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
#: intervals in which a file that is shorter than before has to be still
_STILL_IF_SHORTER = 3


class Reloader:
    """The configuration of a running command. fixed: the options that cannot change; by default those that
    are not `live`. strict: whether a change of one of them makes a file as useless as one that is not valid.
    """

    def __init__(
        self, reading: Reading, fixed: Collection[str] | None = None, *, strict: bool = False
    ) -> None:
        self._reading = reading
        if fixed is None:
            fixed = [name for name, one in options_of(reading.group).items() if not one.described.live]
        self._fixed = frozenset(fixed)
        self._strict = strict
        self._appliers: list[Applier] = []
        self._lock = asyncio.Lock()
        self._is_late = False

    @property
    def flags(self) -> Any:
        """The flags that are in effect."""
        return self._reading.flags

    @property
    def text(self) -> str:
        """The content of the file when it was accepted."""
        return self._reading.text

    def for_successors(self, fixed: Collection[str]) -> Reloader:
        """For a process that starts others with the file: all options but those in `fixed` can change."""
        return Reloader(self._reading, fixed, strict=True)

    def on_change(self, applier: Applier) -> None:
        """Calls `applier` with each change. They are called in the order in which they were added."""
        self._appliers.append(applier)

    def note_hangups(self) -> None:
        """Keeps a SIGHUP for `attach` instead of ending the process. To be called in the main thread."""
        if _HANGUP is not None:
            signal.signal(_HANGUP, self._note_hangup)

    def _note_hangup(self, _number: int, _frame: Any) -> None:
        self._is_late = True

    async def reload(self) -> bool:
        """Reads the file and makes the changes. False if everything stays as it was because of an error."""
        async with self._lock:
            try:
                reading = await asyncio.to_thread(self._reading.again)
            except ConfigError as error:
                problems = "; ".join(str(error).splitlines())
                logger.error(  # noqa: TRY400
                    "the configuration stays as it was: %s (a2a-bridge config check)", problems
                )
                return False
            old = self._reading.flags
            changed = [
                name
                for name in options_of(reading.group)
                if getattr(old, name) != getattr(reading.flags, name)
            ]
            fixed = {name: getattr(old, name) for name in changed if name in self._fixed}
            if "rules" in changed and not _WHO.isdisjoint(fixed):
                fixed["rules"] = old.rules
            if fixed:
                logger.warning("not changed before the next start: %s", ", ".join(fixed))
                if self._strict:
                    return False
            live = [name for name in changed if name not in fixed]
            new = replace(reading.flags, **fixed)
            if live and not await self._apply(old, new):
                return False
            self._reading = replace(reading, flags=new)
            if gone := _gone(old, new):
                logger.warning("the new configuration is without %s", "; ".join(gone))
            logger.info("configuration read again; changed: %s", ", ".join(live) or "nothing")
            return True

    async def _apply(self, old: Any, new: Any) -> bool:
        """Makes a change everywhere, or nowhere."""
        done: list[Applier] = []
        try:
            for applier in self._appliers:
                await _call(applier, old, new)
                done.append(applier)
        except Exception as error:
            if isinstance(error, typer.BadParameter):
                text = "the configuration stays as it was: %s: %s"
                logger.error(text, error.param_hint, error.message)  # noqa: TRY400
            elif isinstance(error, BadTargetError):
                logger.error("the configuration stays as it was: %s", error)  # noqa: TRY400
            else:
                logger.exception("the configuration stays as it was: a change cannot be made")
            for applier in reversed(done):
                await _call(applier, new, old)
            return False
        return True

    @asynccontextmanager
    async def attach(
        self, hangups: Callable[[Callable[[], None]], None] | None = None
    ) -> AsyncIterator[None]:
        """Reloads on SIGHUP, and on changes of the file with `--reload`, while the context is open. hangups:
        registers a function to call on SIGHUP; by default the event loop does.
        """
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[Any]] = set()

        def start(work: Any) -> None:
            task = loop.create_task(work)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        def on_hangup() -> None:
            start(self.reload())

        if hangups is not None:
            hangups(on_hangup)
        elif _HANGUP is not None:
            loop.add_signal_handler(_HANGUP, on_hangup)
        if self._is_late:
            on_hangup()
        if self._reading.flags.reload:
            start(self.watch(self.reload))
        try:
            yield
        finally:
            if hangups is None and _HANGUP is not None:
                loop.remove_signal_handler(_HANGUP)
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def watch(self, on_change: Callable[[], Awaitable[Any]]) -> None:
        """Calls `on_change` whenever the file has changed and is still again, until it is cancelled."""
        path = self._reading.path
        if path is None:
            return
        look = Look(path)
        while True:
            await asyncio.sleep(_PAUSE)
            if look():
                await on_change()


async def watch_code(folder: Path, on_change: Callable[[], Awaitable[Any]]) -> None:
    """Calls `on_change` whenever Python files below a folder have changed and are still. Folders of
    environments and hidden folders are left out (`_NO_CODE`).
    """
    look, known = Look(folder, _state_of_code), dict(_code(folder))
    while True:
        await asyncio.sleep(_CODE_PAUSE)
        if await asyncio.to_thread(look):
            before, known = known, await asyncio.to_thread(lambda: dict(_code(folder)))
            for path, _ in known.items() - before.items():
                _remove_bytecode(path)
            await on_change()


class Look:
    """One look at a file after another, from now on. state: reads what is compared."""

    def __init__(self, path: Path, state: Callable[[Path], _State | None] | None = None) -> None:
        self._path = path
        self._state = _state if state is None else state
        self._known = self._seen = self._state(path)
        #: looks since the last change
        self._still = 0

    def __call__(self) -> bool:
        """Whether the file has changed since this was last true, and has been still for long enough."""
        # An editor may remove a file before it writes the new one.
        now = self._state(self._path)
        self._still = self._still + 1 if now == self._seen else 0
        self._seen = now
        is_new = now is not None and now != self._known and self._still >= self._enough(now)
        if is_new:
            self._known = now
        return is_new

    def _enough(self, now: _State) -> int:
        return _STILL_IF_SHORTER if self._known is not None and now.size < self._known.size else 1


class _State(NamedTuple):
    """What is different after a file was written or replaced."""

    modified: int
    size: int
    inode: int


def _state(path: Path) -> _State | None:
    """The state of a file; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return _State(found.st_mtime_ns, found.st_size, found.st_ino)


def _code(folder: Path) -> Iterator[tuple[str, _State]]:
    """The paths of all Python files below a folder, and their states."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NO_CODE and not name.startswith(".")]
        paths = (Path(place, name) for name in files if name.endswith(".py"))
        yield from ((str(path), state) for path in paths if (state := _state(path)) is not None)


def _state_of_code(folder: Path) -> _State:
    """The state of all Python files below a folder, as one number."""
    # The size is 0: code that becomes shorter is not half written more often than other code.
    return _State(hash(tuple(sorted(_code(folder)))), 0, 0)


def _remove_bytecode(path: str) -> None:
    """Removes the bytecode of a file that has changed. Python compares the size of the file and the second of
    its change: after two changes in one second it would run the code of the first one.
    """
    with suppress(OSError):  # there is none, or Python cannot write to this folder either
        Path(cache_from_source(path)).unlink()


#: the flags that say how callers are identified
_IDENTIFYING = ("api_keys", "jwt_issuer", "ssl_ca_certs", "proxy_user_header")


def _gone(old: Any, new: Any) -> list[str]:
    """What protects a server, or is served, before a change and not after it, with numbers."""
    found = []
    before, after = getattr(old, "rules", ()), getattr(new, "rules", ())
    if lost := [one for one in before if one not in after]:
        rest = "" if after else ", so that every caller may use every operation"
        found.append(f"{len(lost)} of {len(before)} rules{rest}")
    had = [name for name in _IDENTIFYING if getattr(old, name, None)]
    if missing := [name.replace("_", "-") for name in had if not getattr(new, name)]:
        rest = "" if len(missing) < len(had) else ", so that no caller is identified"
        found.append(f"{len(missing)} of {len(had)} methods of authentication ({', '.join(missing)}){rest}")
    agents = getattr(old, "agents", {})
    if names := [name for name in agents if name not in new.agents]:
        found.append(f"{len(names)} of {len(agents)} agents ({', '.join(names)})")
    return found


async def _call(applier: Applier, old: Any, new: Any) -> None:
    result = applier(old, new)
    if result is not None:
        await result
