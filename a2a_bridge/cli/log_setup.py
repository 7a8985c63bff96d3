"""The log of the serving commands: its level and format on stderr, or a configuration of the operator.

Rules:
1. Lines have no content of messages, no credentials and no query of a URL.
2. JSON is one object a line, also for messages that are text otherwise.
3. The agent's own loggers work as without the bridge.
"""

from __future__ import annotations

import json
import logging
import logging.config
import sys
import tomllib
from configparser import Error as IniError
from pathlib import Path
from time import gmtime
from typing import Any

from a2a_bridge.cli import output
from a2a_bridge.cli.flags import LogFormat, LogLevel, ServerFlags
from a2a_bridge.cli.options import Exit

#: libraries of the bridge: below WARNING some of them log headers, and with them credentials
_LIBRARIES = (
    "aiohttp",
    "alembic",
    "asyncio",
    "grpc",
    "h2",
    "hpack",
    "httpcore",
    "httpx",
    "opentelemetry",
    "psycopg",
    "sqlalchemy",
)
#: the attributes of every record; all others came with `extra`
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message", "taskName"}


class TextFormat(logging.Formatter):
    """Lines with the time in UTC, in milliseconds (RFC 3339)."""

    converter = staticmethod(gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        # Messages of the bridge quote peers; the agent's own code may have colours.
        return output.clean(text) if record.name.startswith("a2a_bridge") else text


class JsonFormat(TextFormat):
    """One JSON object: time, level, logger, message, the fields that came with the record, the ids of the
    current span, and exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD and isinstance(value, (str, int, float)):
                line.setdefault(name, value)
        line |= _span_ids()
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_logging(flags: ServerFlags) -> None:
    """Sends the bridge's log to stderr, or where --log-config says. To be called before the agent's code is
    loaded, which may configure logging; then `open_logging` for all other loggers.

    Raises typer.Exit for a configuration that cannot be used.
    """
    formatter = JsonFormat() if flags.log_format is LogFormat.JSON else TextFormat()
    if flags.log_format is LogFormat.JSON:
        output.print_as(formatter)
        logging.captureWarnings(True)
    if flags.log_config is not None:
        _configure(flags.log_config)
        return
    bridge = logging.getLogger("a2a_bridge")
    bridge.setLevel(_number(flags.log_level))
    bridge.propagate = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    bridge.handlers[:] = [handler]


def open_logging(flags: ServerFlags) -> None:
    """Lets the agent's loggers work. If its code has configured the root logger, the bridge logs there, too;
    otherwise all loggers have the bridge's format and level, except libraries below WARNING. With JSON, what
    the agent's code sends to stderr is JSON, too.
    """
    if flags.log_config is not None:
        return
    bridge, root = logging.getLogger("a2a_bridge"), logging.getLogger()
    handlers, bridge.handlers[:] = list(bridge.handlers), []
    bridge.propagate = True
    if root.handlers:
        for handler in root.handlers:
            on_stderr = isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
            if on_stderr and flags.log_format is LogFormat.JSON:
                handler.setFormatter(JsonFormat())
        return
    root.handlers[:] = handlers
    root.setLevel(bridge.level)
    for name in _LIBRARIES:
        library = logging.getLogger(name)
        if library.level == logging.NOTSET:
            library.setLevel(max(logging.WARNING, bridge.level))


def _configure(file: Path) -> None:
    """Reads a configuration of logging. Raises typer.Exit."""
    try:
        text = file.read_text("utf-8")
        kind = file.suffix.lower()
        if kind in (".ini", ".conf", ".cfg"):
            logging.config.fileConfig(str(file), disable_existing_loggers=False)
            return
        tree = tomllib.loads(text) if kind == ".toml" else json.loads(text)
        if not isinstance(tree, dict):
            raise TypeError("it holds no object")  # noqa: TRY301  reported below as the others
        logging.config.dictConfig({"disable_existing_loggers": False, **tree})
    except OSError as error:
        raise output.fail(Exit.USAGE, f"--log-config {file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, AttributeError, ImportError, RuntimeError, IniError) as error:
        cause = f": {error.__cause__}" if error.__cause__ is not None else ""
        text = f"--log-config {file} is no configuration of logging: {error}{cause}"
        remedy = (
            "dictConfig as .json or .toml, or fileConfig as .ini; see the module logging.config of Python"
        )
        raise output.fail(Exit.USAGE, text, remedy) from None


def _number(level: LogLevel) -> int:
    return logging.getLevelNamesMapping()[level.value.upper()]


def _span_ids() -> dict[str, str]:
    """The ids of the current span, if this process traces."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    found = trace.get_current_span().get_span_context()
    return (
        {"trace_id": f"{found.trace_id:032x}", "span_id": f"{found.span_id:016x}"} if found.is_valid else {}
    )


def change_level(old: ServerFlags, new: ServerFlags) -> None:
    """Gives other loggers a new level as far as `configure_logging` and `open_logging` gave them theirs."""
    before, after = (logging.getLevelName(one.log_level.value.upper()) for one in (old, new))
    names = ["a2a_bridge"]
    root = logging.getLogger()
    if any(isinstance(one.formatter, TextFormat) for one in root.handlers):
        root.setLevel(after)
        names += _LIBRARIES
    for name in names:
        logger = logging.getLogger(name)
        least = logging.NOTSET if name == "a2a_bridge" else logging.WARNING
        if logger.level == max(least, before):
            logger.setLevel(max(least, after))
