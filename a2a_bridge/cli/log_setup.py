"""Logs and traces of the serving commands: `--log-level`, `--log-format`, `--log-config` and `--tracing`.

Rules:
1. Lines have no content of messages, no credentials and no query of a URL.
2. JSON is one object a line, also for messages that are text otherwise.
3. The agent's own loggers work as without the bridge.
4. `--tracing on` configures the OpenTelemetry SDK by OTEL_* variables, unless the agent's code has done so.
"""

from __future__ import annotations

import json
import logging
import logging.config
import os
import re
import sys
import tomllib
from configparser import Error as IniError
from importlib.metadata import entry_points
from pathlib import Path
from time import gmtime
from typing import TYPE_CHECKING, Any, Literal

from a2a_bridge.cli.output import fail, print_as
from a2a_bridge.cli.server_flags import LogFormat, ServerFlags, TracingMode
from a2a_bridge.cli.values import Exit
from a2a_bridge.core.extras import MissingExtraError, load
from a2a_bridge.core.foreign_text import clean, clean_but_colours

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

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
#: characters that end a line and that `clean` leaves
_LINE_END = re.compile("[\r\n\u2028\u2029]")


class TextFormat(logging.Formatter):
    """Lines with the time in UTC, in milliseconds (RFC 3339)."""

    converter = staticmethod(gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  of the base class
        """The line of a record, without its exception. A text of a peer in it makes no further line."""
        line = super().formatMessage(record)
        if not record.name.startswith("a2a_bridge"):
            return line
        return _LINE_END.sub(lambda found: repr(found[0])[1:-1], line)

    def format(self, record: logging.LogRecord) -> str:
        return _harmless(record, super().format(record))


class _Harmless(logging.Formatter):
    """What another formatter makes, without control: its handler writes to a terminal."""

    def __init__(self, inner: logging.Formatter | None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        return _harmless(record, self._inner.format(record))


def _harmless(record: logging.LogRecord, text: str) -> str:
    """The text of a record without control characters. Its further lines begin with space, so that no text
    in it is a record. Messages of the bridge and of libraries quote peers; an agent's code may have colours.
    """
    cleaned = clean(text) if record.name.startswith("a2a_bridge") else clean_but_colours(text)
    return cleaned.replace("\n", "\n  ")


class JsonFormat(TextFormat):
    """One JSON object: time, level, logger, message, the record's extra fields, the span's ids, exception."""

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
            line["exception"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(line)


def configure_logging(flags: ServerFlags) -> None:
    """Sends the bridge's log to stderr, or where --log-config says. To be called before the agent's code is
    loaded, which may configure logging; `open_logging` does the same for all other loggers afterwards. Raises
    typer.Exit for a configuration that cannot be used.
    """
    formatter = JsonFormat() if flags.log_format is LogFormat.JSON else TextFormat()
    if flags.log_format is LogFormat.JSON:
        print_as(formatter)
        logging.captureWarnings(True)
    if flags.log_config is not None:
        _configure(flags.log_config)
        return
    bridge = logging.getLogger("a2a_bridge")
    bridge.setLevel(flags.log_level.value.upper())
    bridge.propagate = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    bridge.handlers[:] = [handler]


def open_logging(file: Path | None, form: LogFormat) -> None:
    """Lets the agent's loggers work. If its code has configured the root logger, the bridge logs there, too;
    otherwise all loggers have the bridge's format and level, except libraries below WARNING. With JSON, the
    texts that the agent's code writes to stderr are JSON, too. file: of `--log-config`. form: of the log.
    """
    if file is not None:
        return
    bridge, root = logging.getLogger("a2a_bridge"), logging.getLogger()
    handlers, bridge.handlers[:] = list(bridge.handlers), []
    bridge.propagate = True
    if root.handlers:
        for handler in root.handlers:
            on_stderr = isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
            if on_stderr and form is LogFormat.JSON:
                handler.setFormatter(JsonFormat())
            elif isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.stdout):
                handler.setFormatter(_Harmless(handler.formatter))
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
        raise fail(Exit.USAGE, f"--log-config {file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, AttributeError, ImportError, RuntimeError, IniError) as error:
        cause = f": {error.__cause__}" if error.__cause__ is not None else ""
        text = f"--log-config {file} is no configuration of logging: {error}{cause}"
        remedy = (
            "dictConfig as .json or .toml, or fileConfig as .ini; see the module logging.config of Python"
        )
        raise fail(Exit.USAGE, text, remedy) from None


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


_EXPORTERS = "opentelemetry_traces_exporter"
_REMEDY = "pip install opentelemetry-sdk opentelemetry-exporter-otlp"


def configure_tracing(mode: TracingMode) -> Literal["auto", "off"]:
    """The value for `ServeOptions.tracing`. To be called after the agent's code is loaded, whose provider has
    priority. Raises typer.Exit if `on` is not possible.
    """
    if mode is TracingMode.OFF:
        return "off"
    if mode is TracingMode.ON:
        _provide()
    return "auto"


def _provide() -> None:
    """Configures a provider from the environment, unless there is one."""
    try:
        trace = load("opentelemetry.trace", "tracing")
    except MissingExtraError as error:
        raise fail(Exit.USAGE, f"--tracing on: {error.text}", error.remedy) from None
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        raise fail(
            Exit.USAGE,
            "--tracing on: nothing has configured OpenTelemetry, and its SDK is not installed",
            _REMEDY,
        ) from None
    names = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    exporters = [_exporter(name.strip()) for name in names.split(",") if name.strip() not in ("", "none")]
    resource = Resource.create()
    if resource.attributes.get(SERVICE_NAME, "").startswith("unknown_service"):  # type: ignore[union-attr]
        resource = resource.merge(Resource({SERVICE_NAME: "a2a-bridge"}))
    provider = TracerProvider(resource=resource)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _exporter(name: str) -> SpanExporter:
    """The exporter of a name of OTEL_TRACES_EXPORTER. Raises typer.Exit."""
    wanted = name
    if name == "otlp":
        generic = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", generic)
        wanted = "otlp_proto_http" if protocol.startswith("http/") else "otlp_proto_grpc"
    for point in entry_points(group=_EXPORTERS, name=wanted):
        try:
            make: Any = point.load()
            made: SpanExporter = make()
        except Exception as error:  # noqa: BLE001  of a package that is not ours
            text = f"--tracing on: the exporter {wanted} cannot be made: {type(error).__name__}"
            raise fail(Exit.USAGE, text, "the variables OTEL_EXPORTER_…") from None
        return made
    raise fail(Exit.USAGE, f"--tracing on: no exporter {wanted} of OpenTelemetry is installed", _REMEDY)
