"""`--as` and `--dry-run`: a call as a command, a program, or the request that it would be. Nothing is sent.

Rules:
1. The request is what the client side of the binding writes, read from a socket of this process.
2. In place of a secret stands the variable that holds it (`$A2ACLI_BEARER`), or `***`. A shell finds no other
   variable and no command in the text.
"""

import asyncio
import re
import shlex
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from a2a_bridge.bindings.binding import DialOptions, find
from a2a_bridge.cards import Candidate
from a2a_bridge.cli.values import usage_error
from a2a_bridge.codec import dumps, encoder
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.foreign_text import address_words, clean, clean_json, curl_words, url_word
from a2a_bridge.core.masking import HIDDEN, SECRET, SHORTEST
from a2a_bridge.core.operations import Req, Res, Streaming
from a2a_bridge.core.service import Events, Service
from a2a_bridge.dialects import V1_0
from a2a_bridge.gateway.destinations import Destinations
from a2a_bridge.gateway.upstream import options_for
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client.flags import EquivalentKind

#: headers that every client makes itself
_OWN = frozenset({"host", "content-length", "accept-encoding", "connection", "user-agent"})

#: what a shell reads between double quotes as it stands
_PLAIN = re.compile(r"[\w :/.,;=?&%@+*~()<>#'|\[\]{}-]*")


class CapturedCallError(Exception):
    """A call that is not made. call: it."""

    def __init__(self, call: Call[Any, Any]) -> None:
        super().__init__(call.operation.name)
        self.call = call


class Capturing:
    """A service whose every call raises CapturedCallError."""

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        raise CapturedCallError(call)

    def stream(self, call: Call[Req, Res], /) -> Events:
        raise CapturedCallError(call)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of HTTP or of gRPC, with the message as JSON in its body."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: str


async def request_of_call(call: Call[Any, Any], candidate: Candidate, options: DialOptions) -> Request:
    """The request that a call would be, with the credentials that this interface gets. Raises
    typer.BadParameter for a request that cannot be shown.
    """
    (vetted,) = await Destinations(options).check([candidate])
    options = options_for(vetted.candidate, options)
    binding = candidate.interface.protocol_binding
    if binding == "GRPC":
        if candidate.dialect is not V1_0:
            text = f"the messages of gRPC in {candidate.dialect.version} are not those of A2A 1.0"
            raise usage_error("--as", text)
        request = type(call.request)()
        request.CopyFrom(call.request)
        request.tenant = request.tenant or candidate.interface.tenant
        body = dumps(encoder(type(request))(request)).decode()
        headers = (("a2a-version", candidate.dialect.version), *options.parameters.items())
        return Request(f"lf.a2a.v1.A2AService/{call.operation.name}", candidate.interface.url, headers, body)
    sent: asyncio.Queue[bytes] = asyncio.Queue()
    server = await asyncio.start_server(lambda reader, writer: _take(reader, writer, sent), "127.0.0.1", 0)
    async with server:
        try:
            parts = urlsplit(candidate.interface.url)
        except ValueError as error:
            raise usage_error("--as", f"the interface {candidate.interface.url} is no URL: {error}") from None
        host, port = server.sockets[0].getsockname()
        near = hub.AgentInterface()
        near.CopyFrom(candidate.interface)
        near.url = urlunsplit(("http", f"{host}:{port}", parts.path, parts.query, ""))
        local = replace(options, tls=None, resolve=None, frame_observer=None, timeout=10.0)
        async with find(binding).dial(near, candidate.dialect, local) as service:
            await _make(service, call)
        raw_bytes = await asyncio.wait_for(sent.get(), 10.0)
    head, _, content = raw_bytes.partition(b"\r\n\r\n")
    line, *rest = head.decode("latin-1").split("\r\n")
    method, path, _ = line.split(" ", 2)
    headers = tuple((name, value.strip()) for name, _, value in (one.partition(":") for one in rest))
    kept = tuple(one for one in headers if one[0].lower() not in _OWN)
    return Request(
        method, urlunsplit((parts.scheme, parts.netloc, "", "", "")) + path, kept, content.decode()
    )


async def _make(service: Service, call: Call[Any, Any]) -> None:
    with suppress(A2AError):  # the response of the socket is no response of an agent
        if isinstance(call.operation, Streaming):
            async with aclosing(service.stream(call)) as events:
                async for _ in events:
                    return
        else:
            await service.unary(call)


async def _take(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: asyncio.Queue[bytes]
) -> None:
    """Reads one request, and rejects it."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = 0
    for line in head.decode("latin-1").lower().split("\r\n"):
        if line.startswith("content-length:"):
            size = int(line.partition(":")[2])
    sent.put_nowait(head + await reader.readexactly(size))
    writer.write(b"HTTP/1.1 503 Not sent\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


def format_request(
    kind: EquivalentKind | None,
    request: Request,
    call: Call[Any, Any],
    candidate: Candidate,
    secrets: Mapping[str, str],
) -> str:
    """A request as `kind` says; None: the request itself. secrets: value -> what stands for it."""
    if kind is EquivalentKind.CURL:
        words = [*curl_words(request.url), "-sS", *(["-N"] if isinstance(call.operation, Streaming) else [])]
        words += [] if request.method == "GET" else ["-X", request.method]
        words += [_quote(_pieces(url_word(request.url), secrets))]
        for name, value in request.headers:
            words += ["-H", _quote(_header_pieces(name, value, secrets))]
        words += ["-d", shlex.quote(clean_json(request.body))] if request.body else []
        return " ".join(words)
    if kind is EquivalentKind.GRPCURL:
        parts = urlsplit(request.url if "://" in request.url else f"//{request.url}")
        secure = parts.scheme in ("https", "grpcs") or parts.port == 443
        words = ["grpcurl", *([] if secure else ["-plaintext"])]
        for name, value in request.headers:
            words += ["-H", _quote(_header_pieces(name, value, secrets))]
        words += ["-d", shlex.quote(clean_json(request.body))]
        return " ".join([*words, shlex.join(address_words(url_word(parts.netloc))), request.method])
    if kind is EquivalentKind.PYTHON:
        return _program(call, candidate)
    lines = [f"{request.method} {''.join(_pieces(request.url, secrets))}"]
    lines += ["".join(_header_pieces(name, value, secrets)) for name, value in request.headers]
    return "\n".join([*lines, "", request.body] if request.body else lines)


def _program(call: Call[Any, Any], candidate: Candidate) -> str:
    place, operation = candidate.interface, call.operation
    tree = encoder(type(call.request))(call.request)
    streams = isinstance(operation, Streaming)
    made = f"Call(ops.ALL[{_number(operation)}], request, CallContext())"
    use = [f"        print(await peer.service.unary({made}))"]
    if streams:
        use = [f"        async for event in peer.service.stream({made}):", "            print(event.message)"]
    interface = f"interface({place.protocol_binding!r}, {place.url!r}, version={place.protocol_version!r}"
    interface += f", tenant={place.tenant!r})" if place.tenant else ")"
    return "\n".join(
        [
            "import asyncio",
            "",
            "from a2a_bridge import connect, interface",
            "from a2a_bridge.codec import decoder",
            "from a2a_bridge.core import operations as ops",
            "from a2a_bridge.core.call import Call, CallContext",
            "",
            "",
            "async def main():",
            f"    request = decoder(ops.ALL[{_number(operation)}].request)({tree!r})",
            f"    async with connect({interface}) as peer:",
            *use,
            "",
            "",
            "asyncio.run(main())",
        ]
    )


def _number(operation: Any) -> int:
    from a2a_bridge.core import operations as ops

    return list(ops.ALL).index(operation)


def _header_pieces(name: str, value: str, secrets: Mapping[str, str]) -> list[str]:
    """As `_pieces`, for a line of a header."""
    first, *rest = ["", secrets[value], ""] if value in secrets else _pieces(value, secrets)
    if not rest and name.lower() in SECRET:
        first, rest = "", [HIDDEN, ""]
    return [clean(f"{name}: {first}"), *rest]


def _pieces(text: str, secrets: Mapping[str, str]) -> list[str]:
    """A text, cut at its secrets: every second piece stands for one."""
    long = [one for one in secrets if len(one) >= SHORTEST]
    if not long:
        return [text]
    found = re.split(f"({'|'.join(map(re.escape, sorted(long, key=len, reverse=True)))})", text)
    return [secrets[one] if number % 2 else one for number, one in enumerate(found)]


def _quote(pieces: Sequence[str]) -> str:
    """A word for a shell. Only a variable that stands for a secret counts there: the card of an agent chooses
    URLs and names of headers, which can look like variables and commands.
    """
    text = "".join(pieces)
    if not any(one.startswith("$") for one in pieces[1::2]):
        return shlex.quote(text)
    if _PLAIN.fullmatch("".join(pieces[::2])):
        return f'"{text}"'
    words = [f'"{one}"' if number % 2 else shlex.quote(one) for number, one in enumerate(pieces) if one]
    return "".join(words)
