"""`--tracing`: which spans are made, and the OpenTelemetry SDK for `on`, configured by OTEL_* variables."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal

from a2a_bridge.cli.flags import TracingMode
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import fail
from a2a_bridge.core.extras import MissingExtraError, load

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_EXPORTERS = "opentelemetry_traces_exporter"
_REMEDY = "pip install opentelemetry-sdk opentelemetry-exporter-otlp"


def configure_tracing(mode: TracingMode) -> Literal["auto", "off"]:
    """The value for `ServeOptions.tracing`. To be called after the agent's code is loaded, whose provider has
    priority. Raises typer.Exit if `on` cannot be.
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
