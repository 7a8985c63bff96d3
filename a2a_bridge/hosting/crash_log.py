"""The log of exceptions of the code of agents: the trace of each once, later ones as one line. A logger
at DEBUG logs the whole trace each time.
"""

from __future__ import annotations

import logging

from a2a_bridge.core.agent_traces import agent_trace, place_of_crash

#: crashes that are known, at most
_MOST = 256


class CrashLog:
    """Logs exceptions of the code of agents, each trace once. log: that of the module."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        #: how often each crash has been logged, by the type of the exception and its place
        self._known: dict[tuple[type[BaseException], str], int] = {}

    def error(self, error: BaseException, text: str, *arguments: object) -> None:
        """Logs an exception. text, arguments: as of `Logger.error`."""
        if self._log.isEnabledFor(logging.DEBUG):
            self._log.error(text, *arguments, exc_info=error, stacklevel=2)
            return
        key = (type(error), place_of_crash(error))
        if (times := self._known.get(key, 0)) or len(self._known) < _MOST:
            self._known[key] = times + 1
        if times:
            self._log.error(
                f"{text}, as before (%d times so far): %s: %s (%s)",
                *arguments,
                times + 1,
                type(error).__name__,
                str(error).partition("\n")[0],
                key[1],
                stacklevel=2,
            )
            return
        path, line, *_ = self._log.findCaller(stacklevel=2)
        raised = (type(error), error, error.__traceback__)
        record = self._log.makeRecord(self._log.name, logging.ERROR, path, line, text, arguments, raised)
        record.exc_text = agent_trace(error)  # handlers that want the exception itself have it
        self._log.handle(record)
