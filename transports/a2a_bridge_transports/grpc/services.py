"""The services of a gRPC host, over bytes: those of A2A, grpc.health.v1, server reflection. No sockets.

Messages of health and reflection come from the grpcio packages and are in protobuf's default pool, those of
this project in a private one; reflection therefore uses both.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.errors import A2AError, GrpcStatus
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import Dialect
from a2a_bridge.pb._pool import POOL
from a2a_bridge_transports.grpc.server import Exchange, Handlers, Method, Rejection, Running

HEALTH = "grpc.health.v1.Health"
#: both versions have the same messages on the wire; tools ask for v1 first
_REFLECTIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
REFLECTION_PATHS = frozenset(f"/{name}/ServerReflectionInfo" for name in _REFLECTIONS)

#: seconds between two health updates for watchers while work may be rejected
LOOK = 1.0

_UNREADABLE = Rejection(GrpcStatus.INTERNAL, "the request cannot be read")


class Health:
    """grpc.health.v1: every service is SERVING until the host drains or can accept no new work. Draining also
    ends watches.
    """

    def __init__(self, names: Iterable[str], rejection: Callable[[], A2AError | None] | None) -> None:
        self.names = {"", *names}
        self.retired = asyncio.Event()
        self.rejection = rejection

    def methods(self) -> dict[str, Method]:
        """The methods by full path."""
        return {
            f"/{HEALTH}/Check": Method(self._check, streaming=False),
            f"/{HEALTH}/Watch": Method(self._watch, streaming=True),
        }

    def _status(self) -> Any:
        serving = health_pb2.HealthCheckResponse
        rejected = self.retired.is_set() or (self.rejection is not None and self.rejection() is not None)
        return serving.NOT_SERVING if rejected else serving.SERVING

    async def _check(self, wire: bytes, _call: Exchange) -> bytes | Rejection:
        name = _service_in(wire)
        if name is None:
            return _UNREADABLE
        if name not in self.names:
            return Rejection(GrpcStatus.NOT_FOUND, "unknown service")
        return _encode_status(self._status())

    async def _watch(self, wire: bytes, call: Exchange) -> Rejection:
        name = _service_in(wire)
        if name is None:
            return _UNREADABLE
        known = name in self.names
        status = self._status() if known else health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        await call.write(_encode_status(status))
        while not self.retired.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.retired.wait(), None if self.rejection is None else LOOK)
            if known and status != self._status():
                status = self._status()
                await call.write(_encode_status(status))
        # Otherwise a watcher would keep the server open for the whole grace.
        return Rejection(GrpcStatus.UNAVAILABLE, "the server is shutting down")


def _service_in(wire: bytes) -> str | None:
    try:
        name: str = health_pb2.HealthCheckRequest.FromString(wire).service
    except ValueError:  # protobuf's DecodeError is one
        return None
    return name


def _encode_status(status: Any) -> bytes:
    data: bytes = health_pb2.HealthCheckResponse(status=status).SerializeToString()
    return data


class HostMethods:
    """The methods of one host: those of the agents on it, and health. left: see `Handlers`."""

    def __init__(self, options: HostOptions, left: tuple[type[Exception], ...] = ()) -> None:
        self.options = options
        self._left = left
        self.running = Running()
        self.health = Health((), options.rejection)
        #: the methods by full path
        self.methods = self.health.methods()
        self._handlers: list[Handlers] = []

    def add(self, service: Service, dialects: Sequence[Dialect]) -> None:
        """Serves the dialects that have a gRPC form. Raises ValueError if an address is taken already."""
        handlers = Handlers(service, dialects, self.options, running=self.running, left=self._left)
        taken = self.methods.keys() & handlers.methods.keys()
        if taken:
            raise ValueError(f"{min(taken)} is served by this host already")
        self._handlers.append(handlers)
        self.methods |= handlers.methods
        self.health.names.update(handlers.services)

    @property
    def services(self) -> tuple[str, ...]:
        """The full names of the protobuf services served."""
        return (*(name for handlers in self._handlers for name in handlers.services), HEALTH)

    def find_rejecting(self, path: str) -> Method | None:
        """The method that rejects a path without an operation; None for a path that is not of A2A. The agent
        with the service of the path rejects it; no agent rejects a service of another one.
        """
        attempts = ((others, handlers) for others in (False, True) for handlers in self._handlers)
        found = (handlers.find_rejecting(path, others=others) for others, handlers in attempts)
        return next((method for method in found if method is not None), None)


class Reflection:
    """Server reflection: the descriptors of the services of a host."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = sorted({*names, *_REFLECTIONS})

    async def answers(self, requests: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        """The answers to a stream of requests. Raises ValueError for bytes that are no request."""
        async for wire in requests:
            request = reflection_pb2.ServerReflectionRequest.FromString(wire)
            answer = reflection_pb2.ServerReflectionResponse(
                valid_host=request.host, original_request=request
            )
            try:
                self._fill(request, answer)
            except KeyError:
                answer.error_response.error_code = int(GrpcStatus.NOT_FOUND)
                answer.error_response.error_message = "not found"
            yield answer.SerializeToString()

    def _fill(self, request: Any, answer: Any) -> None:
        kind = request.WhichOneof("message_request")
        if kind == "list_services":
            answer.list_services_response.SetInParent()
            for name in self._names:
                answer.list_services_response.service.add(name=name)
        elif kind == "file_by_filename":
            _add_files(_found("FindFileByName", request.file_by_filename), answer)
        elif kind == "file_containing_symbol":
            _add_files(_file_of(request.file_containing_symbol), answer)
        elif kind == "file_containing_extension":
            extension = request.file_containing_extension
            extended = _found("FindMessageTypeByName", extension.containing_type)
            _add_files(_found("FindExtensionByNumber", extended, extension.extension_number).file, answer)
        elif kind == "all_extension_numbers_of_type":
            name = request.all_extension_numbers_of_type
            extended = _found("FindMessageTypeByName", name)
            answer.all_extension_numbers_response.base_type_name = name
            numbers = [one.number for one in _found("FindAllExtensions", extended)]
            answer.all_extension_numbers_response.extension_number.extend(sorted(numbers))
        else:
            answer.error_response.error_code = int(GrpcStatus.INVALID_ARGUMENT)
            answer.error_response.error_message = "the request asks for nothing"


def _file_of(symbol: str) -> Any:
    """The file that declares a symbol, or a method of a service, which pools do not find. Raises KeyError."""
    try:
        return _found("FindFileContainingSymbol", symbol)
    except KeyError:
        service, _, method = symbol.rpartition(".")
        found = _found("FindServiceByName", service)
        if method not in found.methods_by_name:
            raise
        return found.file


def _found(method: str, *arguments: Any) -> Any:
    """The result of a method of the private pool, else of protobuf's default pool. Raises KeyError."""
    try:
        return getattr(POOL, method)(*arguments)
    except (KeyError, TypeError):  # TypeError: a descriptor of the other pool
        return getattr(descriptor_pool.Default(), method)(*arguments)


def _add_files(first: Any, answer: Any) -> None:
    """Adds a file and everything that it imports."""
    waiting, seen = [first], {first.name}
    while waiting:
        file = waiting.pop()
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        answer.file_descriptor_response.file_descriptor_proto.append(proto.SerializeToString())
        for imported in file.dependencies:
            if imported.name not in seen:
                seen.add(imported.name)
                waiting.append(imported)
