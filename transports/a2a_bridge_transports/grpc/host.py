"""A grpc.aio server as a host: limits, health, reflection, draining. It decodes nothing."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from time import monotonic
from typing import Any, cast

import grpc
import grpc.aio

from a2a_bridge.bindings.binding import MIB, HostOptions, ListenAddress
from a2a_bridge.bindings.server_tls import ServerTls
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import Dialect
from a2a_bridge_transports.grpc.relay import LOOPBACK, Relay, RelayedContext
from a2a_bridge_transports.grpc.server import Handlers, Method, Rejection
from a2a_bridge_transports.grpc.services import REFLECTION_PATHS, Health, HostMethods, Reflection

log = logging.getLogger("a2a_bridge.grpc")

#: seconds for ended calls to inform their callers
_FAREWELL = 2.0
#: accepted calls that wait for a handler
_MOST_PENDING = 20_000
#: the largest value that options of gRPC get here. For 2**31 - 1 connections the C core ends the process
_INT = 2**31 - 2
#: grpcio cannot send to the caller of a call, because it has left or has rejected a message as too large
_LEFT = (grpc.aio.InternalError,)
#: grpcio's logger of failed calls
_FAILED_CALLS = logging.getLogger("grpc._cython.cygrpc")


class GrpcHost:
    """`bindings.Host` over grpc.aio."""

    def __init__(self, address: ListenAddress, options: HostOptions) -> None:
        if options.tls is not None and not isinstance(options.tls, ServerTls | grpc.ServerCredentials):
            raise ValueError("a gRPC host takes a ServerTls or grpc.ServerCredentials as tls")
        self._address = address
        self._options = options
        self._offered = HostMethods(options, _LEFT)
        self._server: Any = None
        inherited = options.grpc_listener
        self._relay = None if inherited is None else Relay(inherited)

    @property
    def address(self) -> ListenAddress:
        """Where it listens; the real port once started."""
        return self._address

    def add(self, service: Service, dialects: Sequence[Dialect]) -> None:
        """As `HostMethods.add`. Raises RuntimeError after the start."""
        if self._server is not None:
            raise RuntimeError("this host has started")
        self._offered.add(service, dialects)

    async def start(self) -> None:
        """Opens the socket. Raises OSError if the address is taken or not local."""
        relay, address = self._relay, self._address
        if relay is None:
            await _check_bindable(address, shared=self._options.reuse_port)
        else:
            address = ListenAddress(LOOPBACK)
        _FAILED_CALLS.addFilter(_is_no_departure)
        server = grpc.aio.server(options=_options(self._options))
        offered = self._offered
        handlers = _Rpcs(offered.methods, offered.find_rejecting, relay), _Reflection(offered.services)
        server.add_generic_rpc_handlers(handlers)
        try:
            tls = self._options.tls
            port = _listen(server, address, _follow(tls) if isinstance(tls, ServerTls) else tls)
        except OSError:
            await server.stop(None)
            raise
        self._server = server
        await server.start()
        if relay is not None:
            port = (await relay.start(port, self._options.backlog)).port
        self._address = ListenAddress(self._address.host, port)

    async def drain(self, grace: float) -> None:
        """Health reports NOT_SERVING. New work is rejected, running work gets `grace` seconds, and the rest
        ends as UNAVAILABLE.
        """
        if self._server is None:
            return
        self._offered.health.retired.set()
        begun, window = monotonic(), self._options.drain_window
        if self._relay is not None:
            await self._relay.stop_accepting(None if window is None else min(grace, window))
        else:
            # Without a wait for idle connections: GOAWAY tells clients which calls were not processed.
            await asyncio.sleep(min(grace, window or 0.0))
        grace = max(0.0, grace - (monotonic() - begun))
        stopped = asyncio.create_task(self._server.stop(grace + _FAREWELL))
        done, _ = await asyncio.wait({stopped}, timeout=grace)
        if not done:
            self._offered.running.end()
        await stopped
        if self._relay is not None:
            await self._relay.close()


def add_to_server(
    service: Service,
    server: Any,
    dialects: Sequence[Dialect],
    options: HostOptions,
    *,
    health: bool = False,
    reflection: bool = False,
) -> None:
    """Attaches the server side to a grpc.aio server that the caller owns, starts and stops.

    options: only its limits of requests, `authenticate`, `permit`, and `rejection` for health. The server's
    own `grpc.max_receive_message_length` (4 MiB unless set) applies before `max_body`. health, reflection:
    also serve these, for A2A alone; leave them off if the server has its own. Raises TypeError for a server
    that is not of grpc.aio.
    """
    if not isinstance(server, grpc.aio.Server):
        name = f"{type(server).__module__}.{type(server).__qualname__}"
        raise TypeError(f"handlers are coroutines and need a server of grpc.aio.server(), not {name}")
    handlers = Handlers(service, dialects, options, left=_LEFT)
    methods = dict(handlers.methods)
    if health:
        methods |= Health(handlers.services, options.rejection).methods()
    server.add_generic_rpc_handlers((_Rpcs(methods, handlers.find_rejecting),))
    if reflection:
        server.add_generic_rpc_handlers((_Reflection(handlers.services),))


def _is_no_departure(record: logging.LogRecord) -> bool:
    """False for a caller that left during its response: grpcio may log that as an error with a traceback."""
    return record.exc_info is None or not isinstance(record.exc_info[1], _LEFT)


_STATUS = {int(code.value[0]): code for code in grpc.StatusCode}


class _Rpcs(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio is untyped
    """Methods as handlers of grpc.aio, found by full path. find_rejecting: see `Handlers`. relay: of the
    connections, if they have one.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        find_rejecting: Callable[[str], Method | None],
        relay: Relay | None = None,
    ) -> None:
        self._relay = relay
        self._known = {path: _rpc(method, relay) for path, method in methods.items()}
        self._find_rejecting = find_rejecting

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a path; None leaves the path to other handlers, and finally to grpcio."""
        path: str = handler_call_details.method
        found = self._known.get(path)
        if found is not None:
            return found
        rejected = self._find_rejecting(path)
        return None if rejected is None else _rpc(rejected, self._relay)


def _rpc(method: Method, relay: Relay | None) -> Any:
    answer = method.answer
    if relay is not None:

        def answer(wire: bytes, context: Any) -> Any:
            return method.answer(wire, RelayedContext(context, relay))

    async def handle(wire: Any, context: Any) -> bytes | None:
        # For a rejected path the request may be a stream, which nobody reads.
        result = await answer(wire if method.known else b"", context)
        if type(result) is Rejection:
            code = _STATUS.get(result.status, grpc.StatusCode.UNKNOWN)
            await context.abort(code, result.text, result.trailers)
        return cast("bytes | None", result)

    if not method.known:
        return grpc.stream_stream_rpc_method_handler(handle)
    if method.streaming:
        return grpc.unary_stream_rpc_method_handler(handle)
    return grpc.unary_unary_rpc_method_handler(handle)


class _Reflection(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio is untyped
    """Server reflection as a handler of grpc.aio."""

    def __init__(self, names: Sequence[str]) -> None:
        self._reflection = Reflection(names)
        self._handler = grpc.stream_stream_rpc_method_handler(self._answer)

    def service(self, handler_call_details: Any) -> Any:
        return self._handler if handler_call_details.method in REFLECTION_PATHS else None

    async def _answer(self, requests: Any, context: Any) -> None:
        try:
            async with aclosing(self._reflection.answers(requests)) as answers:
                async for answer in answers:
                    await context.write(answer)
        except ValueError:
            await context.abort(grpc.StatusCode.INTERNAL, "the request cannot be read")


def _options(options: HostOptions) -> list[tuple[str, int]]:
    connections = min(options.max_connections, _INT)
    limits = [("grpc.max_allowed_incoming_connections", connections)] * bool(connections)
    return [
        *limits,
        # Without a limit, one connection that resets its streams at once could occupy the loop.
        ("grpc.max_concurrent_streams", min(options.max_connection_streams, _INT)),
        # It would also count ended streams, and so reject clients that keep to the limit.
        ("grpc.http.overload_protection", 0),
        # Calls that wait for a handler. Beyond 1000 grpcio would reset random calls, as CANCELLED.
        ("grpc.server.max_pending_requests", _MOST_PENDING),
        ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING),
        # Two servers must not share a port by accident: a taken address is an error.
        ("grpc.so_reuseport", int(options.reuse_port and options.grpc_listener is None)),
        # Between a soft and a hard limit gRPC rejects at random: so both are equal.
        ("grpc.max_metadata_size", options.max_header),
        ("grpc.absolute_max_metadata_size", options.max_header),
        # grpcio's own rejection has no details; this limit is larger, so that the bridge rejects first.
        ("grpc.max_receive_message_length", min(2 * options.max_body + MIB, _INT)),
        ("grpc.max_send_message_length", -1),
        ("grpc.server_handshake_timeout_ms", max(1, int(options.header_timeout * 1000))),
        # A dead peer is detected within 30 s, with or without calls.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 8_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # Peers may use the same interval.
        ("grpc.http2.min_ping_interval_without_data_ms", 9_000),
    ]


async def _check_bindable(address: ListenAddress, *, shared: bool) -> None:
    """Raises OSError with the reason if the address cannot be bound: grpcio does not raise the system's
    error, and prints to stderr. shared: other processes may have the address, too. Then the probe does not
    listen: it would take their connections.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, number, _, where = found[0]
    with socket.socket(family, kind, number) as probe:
        if sys.platform != "win32":  # where it takes the address of another process
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            probe.bind(where)
            if not shared:
                probe.listen(1)
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {address}: {error.strerror}") from None


def _follow(tls: ServerTls) -> Any:
    """Credentials that follow the files of a ServerTls. gRPC asks for them with each connection."""
    required = tls.asks_clients and tls.cert_reqs == "required"
    if tls.asks_clients and not required:
        log.warning(
            "gRPC cannot ask for optional client certificates: its callers are not asked for one; they need"
            " other credentials, or --ssl-cert-reqs required"
        )
    used = tls.current()

    def configured() -> Any:
        # Without authorities gRPC does not look at client certificates.
        return grpc.ssl_server_certificate_configuration(
            [(used.key, used.certificate)], used.client_ca if required else None
        )

    def changed() -> Any:
        nonlocal used
        found = tls.current()
        if found is used:
            return None
        used = found
        return configured()

    return grpc.dynamic_ssl_server_credentials(configured(), changed, require_client_authentication=required)


def _listen(server: Any, address: ListenAddress, credentials: Any) -> int:
    try:
        if credentials is None:
            port: int = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), credentials)
    except RuntimeError as error:
        raise OSError(errno.EADDRINUSE, f"cannot listen on {address}: {error}") from error
    return port
