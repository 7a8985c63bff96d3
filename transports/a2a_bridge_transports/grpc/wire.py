"""The gRPC parts around protobuf bytes, as pure functions: metadata, targets, status. It has no I/O and no
grpcio.

Rules:
1. Metadata is pairs of a lower-case name and a str, or bytes if the name ends in `-bin`. Parameters are a
   dict of str; binary metadata never becomes a parameter.
2. Outgoing metadata is checked here: printable ASCII values, no reserved names. Nothing is repaired silently.
3. Every outgoing status fits the smallest metadata limit in the field, details included.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from a2a_bridge.bindings.places import DEFAULT_PORTS, SECURE, Place, place_of, read_place
from a2a_bridge.core.call import (
    EVENT_PARAMETER,
    EXTENSIONS_PARAMETER,
    LEFT_OUT_PARAMETER,
    RESUME_PARAMETER,
    SIDE_CHANNEL,
    Joined,
    entries_of,
)
from a2a_bridge.core.errors import A2AError, Blame, GrpcStatus, Reason, Violation, changed
from a2a_bridge.core.operations import Operation
from a2a_bridge.core.resume import GAP, is_id
from a2a_bridge.dialects import Dialect, ErrorReply
from a2a_bridge.dialects.dialect import OLDER_EXTENSIONS, extension_names, merge
from a2a_bridge_transports._http.certificates import certificate_problem

#: the trailer that carries a serialized google.rpc.Status (spec 10.6)
DETAILS_TRAILER = "grpc-status-details-bin"

#: Peers reject trailers above 8 KiB by default. Details travel as base64, texts percent-encoded.
MAX_DETAILS = 4096
MAX_TEXT = 640

_NAME = re.compile(r"[0-9a-z_.-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\u0080-\u009f\u2028\u2029\ud800-\udfff]+")

#: schemes of gRPC's own naming, passed on unchanged
_NATIVE = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:")

_SAID_BY_OLDER = (EXTENSIONS_PARAMETER, LEFT_OUT_PARAMETER)
_SAID = (*_SAID_BY_OLDER, SIDE_CHANNEL)

Pairs = tuple[tuple[str, str], ...]
Metadata = Iterable[tuple[str, str | bytes]] | None


def parameters_of(metadata: Metadata) -> dict[str, str]:
    """Metadata as service parameters (spec 3.2.6): entries of one name are joined by a comma, binary entries
    are left out. The extensions come from both names for them.
    """
    found: dict[str, str] = {}
    for name, value in metadata or ():
        if isinstance(value, str):
            found[name] = Joined((*entries_of(found[name]), value)) if name in found else value
    if OLDER_EXTENSIONS in found:
        found[EXTENSIONS_PARAMETER] = merge(
            found.get(name, "") for name in (EXTENSIONS_PARAMETER, OLDER_EXTENSIONS)
        )
    return found


def reply_parameters(metadata: Metadata, dialect: Dialect) -> dict[str, str]:
    """The response parameters in a peer's metadata: the extensions it activated (spec 3.2.6), the number of
    tasks left out of a list, and content that has no place in a message. All other entries concern only this
    connection and its proxies; their `date`, for example, is no parameter of an HTTP response.
    """
    found = parameters_of(metadata)
    names = _SAID if dialect.declares else _SAID_BY_OLDER
    return {name: value for name in names if (value := found.get(name))}


def first_event(metadata: Metadata) -> str:
    """The id of the first event of a stream, from its initial metadata; empty without one."""
    for name, value in metadata or ():
        if name == EVENT_PARAMETER and isinstance(value, str) and is_id(value):
            return value
    return ""


def begins_with_gap(metadata: Metadata) -> bool:
    """True if the first event of a stream replaces lost events, according to its initial metadata."""
    return any(name == RESUME_PARAMETER and value == GAP for name, value in metadata or ())


def reply_metadata(reply: Mapping[str, str], request_metadata: Metadata, dialect: Dialect) -> Pairs:
    """Response parameters as metadata. Activated extensions go back under the names that the request used.
    Raises ValueError as `metadata_of` does.
    """
    parameters = dict(reply)
    if not dialect.declares:
        parameters.pop(SIDE_CHANNEL, None)
    active = parameters.pop(EXTENSIONS_PARAMETER, None)
    if active is not None:
        names = extension_names({name for name, _ in request_metadata or ()}, dialect.extensions)
        parameters.update(dict.fromkeys(names, active))
    return metadata_of(parameters)


def metadata_of(parameters: Mapping[str, str]) -> Pairs:
    """Service parameters as metadata. Raises ValueError, with the parameter's name and never its value, if
    gRPC cannot carry it: names outside [0-9a-z_.-], reserved names, values with anything but printable ASCII.
    """
    pairs = tuple((name.lower(), entry) for name, value in parameters.items() for entry in entries_of(value))
    for name, value in pairs:
        if not _NAME.fullmatch(name) or name.startswith("grpc-") or name.endswith("-bin"):
            raise ValueError(f"{name[:64]!r} cannot be the name of gRPC metadata")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of {name!r} is not printable ASCII")
    return pairs


@dataclass(frozen=True, slots=True)
class Target:
    """The address to dial."""

    #: in the form of grpc.aio
    name: str
    #: from the URL's scheme or port 443; None if neither decides
    secure: bool | None
    #: the only host and port of the target; None for several, for an authority of DNS, for a socket's path
    place: Place | None


def target_of(url: str) -> Target:
    """The target of an interface URL: `host:port` (spec 5), or, as peers also write, an http, https, grpc or
    grpcs URL without a path, or gRPC's own dns:, unix:, ipv4:, ipv6:. Raises ValueError for other URLs.
    """
    if url.startswith(_NATIVE):
        return Target(url, None, place_of(url))
    scheme, separator, rest = url.partition("://")
    if separator and scheme.lower() not in DEFAULT_PORTS:
        raise ValueError(f"{url[:200]!r}: gRPC is not spoken over {scheme[:32]!r}")
    place = read_place(url)
    if any(mark in (rest if separator else url).removesuffix("/") for mark in "@/?#"):
        raise ValueError(f"{url[:200]!r}: a gRPC interface is host and port alone")
    secure = scheme.lower() in SECURE if separator else place.secure or None
    return Target(str(place), secure, place)


def plain_text(text: str) -> str:
    """`text` as a status message: one line, no control characters, at most MAX_TEXT bytes of UTF-8."""
    encoded = _UNSAFE.sub(" ", text).encode()
    return encoded.decode() if len(encoded) <= MAX_TEXT else encoded[:MAX_TEXT].decode(errors="ignore")


def address_of(peer: str) -> str:
    """The IP address in a peer as gRPC names it, such as `ipv4:127.0.0.1:50051`; empty for another kind."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    return unquote(rest.rpartition(":")[0]).strip("[]")


def status_of(
    error: A2AError, encode: Callable[[A2AError], ErrorReply[bytes]]
) -> tuple[int, str, tuple[tuple[str, str | bytes], ...]]:
    """(status number, status message, trailers) of an error. If it is too large, parts are omitted, least
    important first: foreign details, then violations and metadata; reason and the start of the message always
    remain.
    """
    reply = encode(error)
    if reply.body is not None and len(reply.body) > MAX_DETAILS:
        reply = encode(_shorter(error))
    if reply.body is not None and len(reply.body) > MAX_DETAILS:
        reply = encode(_shorter(error, bare=True))
    trailers = () if reply.body is None else ((DETAILS_TRAILER, reply.body),)
    return reply.status, plain_text(reply.text or error.message), trailers


def _shorter(error: A2AError, *, bare: bool = False) -> A2AError:
    violations = tuple(
        Violation(plain_text(item.field)[:120], plain_text(item.description)[:200])
        for item in error.violations[:8]
    )
    text, metadata = plain_text(error.message), {} if bare else error.metadata
    return changed(
        error, message=text, violations=violations, metadata=metadata, details=(), name=error.name[:120]
    )


def error_reply(
    status: int, text: str | None, trailers: Metadata, operation: Operation[Any, Any] | None = None
) -> ErrorReply[bytes]:
    """A peer's status and trailers for a call of `operation`, in the form that a dialect decodes."""
    details = next((value for name, value in trailers or () if name == DETAILS_TRAILER), None)
    return ErrorReply(status, details if isinstance(details, bytes) else None, text or "", operation)


#: texts of gRPC's resolver and balancer for a call without a connection
_UNCONNECTED = (
    "failed to connect to all addresses",
    "connections to all backends failing",
    "errors resolving",
    "dns resolution failed",
    "empty address list",
)


def says_unconnected(reply: ErrorReply[bytes]) -> bool:
    """True if an UNAVAILABLE reads like one that this side made for lack of a connection. gRPC has no flag
    for it, and a peer can send the same text: the caller must also check that the channel has no connection.
    """
    return reply.body is None and reply.text.lower().startswith(_UNCONNECTED)


#: gRPC's texts for failed handshakes, and their meaning
_HANDSHAKES = (
    ("WRONG_VERSION_NUMBER", "it does not speak TLS (--grpc-plaintext, grpc://)"),
    ("http1.x server", "it speaks HTTP/1.1 and no gRPC there"),
    (
        "last error: UNAVAILABLE",
        "it closes connections at once, as it does where TLS is wanted (--grpc-tls, grpcs://)",
    ),
)


#: gRPC's texts for certificates that do not pass; what OpenSSL said may follow
_UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED(?:: ([^:;]+))?|(Hostname Verification) Check failed")


def describe_unconnected(reply: ErrorReply[bytes], target: str, *, secure: bool = False) -> str:
    """The reason why there is no connection to a target, for messages. secure: whether TLS was spoken."""
    if (found := _UNTRUSTED.search(reply.text)) is not None:
        problem = certificate_problem(found[1] or found[2] or "")
        return f"no connection to the agent at {target}: its certificate {problem}"
    if secure and "Socket closed" in reply.text:
        return (
            f"no connection to the agent at {target}: it ends connections at once, as it does where it wants"
            " a client certificate (--cert)"
        )
    for mark, words in _HANDSHAKES:
        if mark in reply.text and ("Socket closed" in reply.text or "last error: UNAVAILABLE" not in mark):
            return f"no connection to the agent at {target}: {words}"
    return f"no connection to the agent at {target}: {plain_text(reply.text)}"


#: texts of gRPC's core and its proxies for a connection that broke during a call, by a status that does not
#: tell so
_BROKEN = {
    int(GrpcStatus.CANCELLED): ("cancelled", "stream removed", "received rst_stream"),
    int(GrpcStatus.UNKNOWN): ("stream removed",),
    int(GrpcStatus.INTERNAL): ("received rst_stream", "stream removed (rst_stream"),
}


def broken_error(reply: ErrorReply[bytes]) -> A2AError | None:
    """UNAVAILABLE for a status that this side's gRPC made because the connection broke, or because a stopping
    server dropped the call; None for other statuses.
    """
    words = _BROKEN.get(reply.status)
    if words is None or reply.body is not None or not reply.text.lower().startswith(words):
        return None
    error = A2AError(Reason.UNAVAILABLE, "the connection to the agent broke", blame=Blame.PEER)
    error.add_note(f"gRPC said: {reply.text[:200]}")
    return error


def closed_error() -> A2AError:
    """UNAVAILABLE for a call of a client side that is closed: it is not sent."""
    text, metadata = "this client is closed", {"phase": "connect"}
    return A2AError(Reason.UNAVAILABLE, text, metadata=metadata, blame=Blame.SELF)


def too_large(reply: ErrorReply[bytes]) -> A2AError | None:
    """The error for a message that gRPC rejected for its size: REQUEST_TOO_LARGE if the peer did so with the
    request, INVALID_AGENT_RESPONSE if this side did with the response; else None.
    """
    text = reply.text.lower()
    if (
        reply.status != GrpcStatus.RESOURCE_EXHAUSTED
        or reply.body is not None
        or "larger than max" not in text
    ):
        return None
    if "client:" in text:
        return A2AError(Reason.INVALID_AGENT_RESPONSE, "the agent's answer is too large", blame=Blame.PEER)
    return A2AError(Reason.REQUEST_TOO_LARGE, reply.text, blame=Blame.PEER)
