"""The way to the agent: its name, a connection, its certificate, each interface of the card, and credentials.

Rules:
1. The dates, the names and the authority of a certificate are checked by one handshake each: OpenSSL stops at
   the first fault, and a certificate may have several.
2. Every interface is dialled in the version that the card names, and in the other one.
3. An agent has to ask for credentials as its card says.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

from a2a_bridge.bindings.binding import TlsFiles, names
from a2a_bridge.bindings.places import Place, place_of
from a2a_bridge.cards import Candidate, select
from a2a_bridge.cards.read import assumption
from a2a_bridge.cards.select import unusable
from a2a_bridge.cli.advertised import FAULTS, ask, fault_of
from a2a_bridge.cli.target import TargetKind
from a2a_bridge.core.addresses import is_address
from a2a_bridge.core.errors import A2AError, Kind, Reason, cause_of
from a2a_bridge.dialects import GRPC, KNOWN, V0_3, V1_0, BindingKind, Dialect
from a2a_bridge.dialects.v0_3.card import is_old
from a2a_bridge.gateway.destinations import Destination, Destinations, move_to
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.check.inspection import Dialled, Finding, Inspection
from a2a_bridge_tools.client.credentials import list_required


def place(inspection: Inspection) -> Place | None:
    """The host and port of the target; None for a card in a file."""
    if inspection.target.sort not in (TargetKind.URL, TargetKind.GRPC):
        return None
    return place_of(inspection.target.place)


async def dns(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether the host has addresses."""
    here = place(inspection)
    if here is None or is_address(here.host):
        return
    try:
        found = await asyncio.wait_for(_addresses(here), inspection.options.connect_timeout)
    except TimeoutError:
        problem = f"no answer within {inspection.options.connect_timeout:g} s"
    except (OSError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
    else:
        yield Finding("DNS", True, f"{here.host} is {', '.join(found)}")
        return
    inspection.is_over = True
    fix = f"correct the name {here.host!r}, or add it to the DNS that this machine asks"
    yield Finding("DNS", False, f"{here.host}: {problem}", fix, unreachable=True)


async def tcp(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether something accepts connections there."""
    here = place(inspection)
    if here is None:
        return
    started = time.monotonic()
    where = f"[{here.host}]:{here.port}" if ":" in here.host else f"{here.host}:{here.port}"
    try:
        async with asyncio.timeout(inspection.options.connect_timeout):
            _, writer = await asyncio.open_connection(here.host, here.port)
    except TimeoutError:
        problem = f"no answer within {inspection.options.connect_timeout:g} s"
        fix = "let a firewall or security group pass connections to this port"
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno else str(error)
        fix = "start the agent, name the port that it listens on, or let it listen on more than 127.0.0.1"
    else:
        address = writer.get_extra_info("peername")[0]
        writer.close()
        yield Finding(
            "TCP", True, f"{where} at {address} accepts after {(time.monotonic() - started) * 1000:.0f} ms"
        )
        return
    inspection.is_over = True
    yield Finding("TCP", False, f"{where}: {problem}", fix, unreachable=True)


async def _addresses(here: Place) -> list[str]:
    rows = await asyncio.get_running_loop().getaddrinfo(here.host, here.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


#: X509_V_FLAG_NO_CHECK_TIME, for which the module ssl has no name
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
_DAY = 86400
#: days before its end in which a certificate should have been renewed
_SOON = 14


async def tls(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """What is wrong with the certificate, if the target is reached over TLS."""
    here = place(inspection)
    if here is None:
        return
    secure = here.secure
    if inspection.target.sort is TargetKind.GRPC and inspection.options.grpc_tls is not None:
        secure = inspection.options.grpc_tls
    if not secure:
        return
    files = inspection.options.tls
    files = files if isinstance(files, TlsFiles) else TlsFiles()
    bare = _Handshakes(here, files, inspection.options.connect_timeout)
    try:
        leaf, protocol = await bare.leaf()
    except (OSError, TimeoutError) as error:
        inspection.is_over = True
        text = getattr(error, "reason", None) or str(error) or "no answer in time"
        fix = "write http:// (gRPC: grpc://) if this port speaks no TLS; else let its TLS accept this client"
        if "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text:
            fix = "give the certificate that the agent asks its callers for: --cert FILE --cert-key FILE"
        yield Finding(
            "TLS", False, f"no handshake with {here.host}:{here.port}: {text}", fix, unreachable=True
        )
        return
    async for finding in _certificate(bare, leaf, protocol):
        # With --insecure nothing of this is looked at by the calls that follow.
        inspection.is_over = inspection.is_over or (not finding.ok and files.verify)
        yield finding


async def _certificate(handshakes: _Handshakes, leaf: str, protocol: str) -> AsyncGenerator[Finding, None]:
    problem, shown = await handshakes.verify_leaf(leaf, dates=True)
    end = ssl.cert_time_to_seconds(str(shown["notAfter"])) - time.time() if shown else 0.0
    if problem:
        fix = "renew the certificate, and let the server read it again"
        if "not yet valid" in problem:
            fix = "wait until it begins, or correct the clock of this machine or of the one that issued it"
        yield Finding("TLS dates", False, problem, fix)
    else:
        advice = f"renew the certificate: {end / _DAY:.0f} days are left" if end < _SOON * _DAY else ""
        yield Finding("TLS dates", True, f"valid until {shown['notAfter']}, over {protocol}", advice)
    problem, _ = await handshakes.verify_leaf(leaf, names=True)
    if problem:
        fix = f"issue the certificate for {handshakes.host} (subjectAltName), or use the name that it is for"
        yield Finding("TLS names", False, problem, fix)
    else:
        yield Finding("TLS names", True, f"the certificate is for {handshakes.host}")
    problem, _ = await handshakes.verify_leaf("")
    if problem:
        fix = "serve the whole chain up to a known authority; if the authority is your own: --cacert FILE"
        yield Finding("TLS chain", False, problem, fix)
    else:
        yield Finding("TLS chain", True, "an authority that is trusted here has signed it")


class _Handshakes:
    """Handshakes with one server."""

    def __init__(self, here: Place, files: TlsFiles, limit: float) -> None:
        self.host = here.host
        self._port = here.port
        self._files = files
        self._limit = limit

    async def leaf(self) -> tuple[str, str]:
        """The server's certificate as PEM, unverified, and the TLS version. Raises OSError, TimeoutError."""
        context = self._context("")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = await self._connect(context)
        return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b""), str(
            connection.version()
        )

    async def verify_leaf(
        self, leaf: str, *, dates: bool = False, names: bool = False
    ) -> tuple[str, dict[str, Any]]:
        """What is wrong with the certificate (empty for nothing), and its content if nothing is. leaf: a
        certificate that counts as trusted; empty for the usual authorities.
        """
        context = self._context(leaf)
        context.check_hostname = names
        if not dates:
            context.verify_flags |= _NO_CHECK_TIME
        try:
            connection = await self._connect(context)
        except ssl.SSLCertVerificationError as error:
            return str(error.verify_message), {}
        except (OSError, TimeoutError) as error:
            return getattr(error, "reason", None) or str(error) or "no answer in time", {}
        return "", dict(connection.getpeercert() or {})

    def _context(self, leaf: str) -> ssl.SSLContext:
        if leaf:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=leaf)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        else:
            context = ssl.create_default_context(cafile=self._files.ca or None)
        if self._files.certificate:
            context.load_cert_chain(self._files.certificate, self._files.key or None)
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    async def _connect(self, context: ssl.SSLContext) -> ssl.SSLObject:
        async with asyncio.timeout(self._limit):
            _, writer = await asyncio.open_connection(self.host, self._port, ssl=context)
        connection: ssl.SSLObject = writer.get_extra_info("ssl_object")
        writer.close()
        return connection


#: errors of an agent that knows neither the method nor the version
_OTHER_VERSION = FAULTS | {Reason.VERSION_NOT_SUPPORTED, Reason.UNSUPPORTED_OPERATION, Reason.INVALID_REQUEST}


async def interfaces(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Dials each interface as the card describes it. Leaves `dialled`."""
    card = inspection.card
    for text in unusable(card, known=names()):
        yield Finding(
            "interface", False, text, "correct protocolBinding and protocolVersion of this interface"
        )
    try:
        candidates = _once(select(card, known=names()))
    except A2AError:  # all are unusable, which was said
        return
    places = await Destinations(inspection.options).check(candidates)
    rejected = [one for one in places if one.rejection]
    for one in rejected:
        yield _report_misplaced(one)
    inspection.dialled = list(
        await asyncio.gather(*(_dial(one.candidate, inspection) for one in places if not one.rejection))
    )
    for dialled in inspection.dialled:
        yield await _judge_response(dialled, inspection)


async def other_versions(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Which versions work at the addresses of the card without being listed there."""
    listed = {
        (one.candidate.interface.protocol_binding, _family(one.candidate.dialect), _key(one.candidate))
        for one in inspection.dialled
    }
    tried: set[tuple[str, str, str]] = set()
    found: list[str] = []
    for one in inspection.working:
        for dialect in (V1_0, V0_3):
            key = one.candidate.interface.protocol_binding, _family(dialect), _key(one.candidate)
            if key in listed or key in tried or dialect.form(BindingKind(key[0])) is None:
                continue
            tried.add(key)
            if await _speaks(replace(one.candidate, dialect=dialect), inspection):
                found.append(f"{dialect.version} over {key[0]}")
    if found:
        text = "list them in supportedInterfaces, if callers may use them"
        yield Finding("other versions", True, f"spoken, and not in the card: {', '.join(found)}", text)
    elif tried:
        yield Finding("other versions", True, "none but those of the card")


async def check_unknown_task(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether each interface answers TaskNotFoundError for a task that nobody has."""
    asked = inspection.working
    if not asked:
        return
    wrong = [one for one in asked if one.error is None or one.error.reason is not Reason.TASK_NOT_FOUND]
    if not wrong:
        yield Finding("unknown task", True, f"TaskNotFoundError {inspection.over(asked)}")
    for one in wrong:
        answer = "a task" if one.error is None else f"{one.error.name}: {one.error.message}"
        yield Finding(
            f"unknown task {one.name}",
            False,
            f"asked for a task that nobody has, it answers {answer}",
            "answer TaskNotFoundError: JSON-RPC code -32001, HTTP 404, gRPC NOT_FOUND",
        )


async def _dial(candidate: Candidate, inspection: Inspection) -> Dialled:
    started = time.monotonic()
    error = await ask(candidate, inspection.dial_options(), inspection.limit)
    return Dialled(candidate, error, time.monotonic() - started)


async def _judge_response(dialled: Dialled, inspection: Inspection) -> Finding:
    """The finding about an interface. Says which other version its address speaks, if it is that."""
    error, one = dialled.error, dialled.candidate.interface
    took = f"{one.url} answers after {dialled.seconds * 1000:.0f} ms"
    if dialled.is_rejected:
        dialled.works = True
        if dialled.candidate.credentials and inspection.options.parameters:
            fix = "give credentials that this agent accepts for reading tasks"
            return Finding(dialled.name, False, f"{one.url} rejects your headers", fix)
        return Finding(
            dialled.name,
            True,
            f"{took} and asks for credentials",
            "give them to go on: -H 'NAME: VALUE'",
        )
    if error is None or (error.reason not in _OTHER_VERSION and not fault_of(error)):
        dialled.works = True
        return Finding(dialled.name, True, took)
    if error.reason in _OTHER_VERSION:
        newest = {_family(dialect): dialect for dialect in reversed(KNOWN)}  # of each family
        for dialect in reversed(newest.values()):
            other = replace(dialled.candidate, dialect=dialect)
            if _family(dialect) != _family(dialled.candidate.dialect) and await _speaks(other, inspection):
                said = (
                    assumption(one.protocol_version, inspection.tree)
                    or f"the card says {one.protocol_version}"
                )
                return Finding(
                    dialled.name,
                    False,
                    f"{said}, and {one.url} speaks {dialect.version}",
                    f'write "protocolVersion": "{dialect.version}" for this interface'
                    f" (`gateway` in front serves {one.protocol_version}), or serve {one.protocol_version}",
                )
    assumed = assumption(one.protocol_version, inspection.tree) if error.reason in _OTHER_VERSION else ""
    detail = f"{one.url}: {cause_of(error)}{'; ' if assumed else ''}{assumed}"
    return Finding(dialled.name, False, detail, await _remedy(dialled, inspection, error))


async def _speaks(candidate: Candidate, inspection: Inspection) -> bool:
    if candidate.dialect.form(BindingKind(candidate.interface.protocol_binding)) is None:
        return False
    error = await ask(candidate, inspection.dial_options(), inspection.limit)
    return error is not None and error.reason is Reason.TASK_NOT_FOUND


async def _remedy(dialled: Dialled, inspection: Inspection, error: A2AError) -> str:
    one = dialled.candidate.interface
    if error.metadata.get("phase") != "connect":
        if error.reason is Reason.DEADLINE_EXCEEDED:
            return "let the agent answer at once that it has no such task, or pass a larger --timeout"
        if error.reason is Reason.INTERNAL_ERROR:
            return "see the log of the agent: it fails for a task that it does not have"
        if one.protocol_binding == GRPC.name:
            return "let this address lead to the agent's gRPC service, with HTTP/2 up to the agent"
        return f"write the URL where the agent takes {one.protocol_binding}, and let proxies pass it on"
    other = move_to(dialled.candidate, inspection.options.named) if inspection.options.named else None
    if other is not None:
        answer = await ask(other, inspection.dial_options(anonymous=True), inspection.limit)
        if answer is None or not fault_of(answer):
            return f"write {other.interface.url} in the card, which answers; see --public-url, --public-grpc"
    if "certificate" in cause_of(error):
        return "renew or correct this certificate; one of your own authority needs --cacert FILE"
    return "start what listens there, or take this interface out of the card"


def _report_misplaced(one: Destination) -> Finding:
    interface = one.candidate.interface
    return Finding(
        f"{interface.protocol_binding} {interface.protocol_version}",
        False,
        f"the card leads to {interface.url}, {one.rejection}",
        "write the address that callers use in the card: --public-url, --public-grpc; or, if you trust it,"
        " pass --trust-card-urls",
    )


async def public_url(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether the URLs of the card can be called from elsewhere."""
    here = place(inspection)
    # A URL that does not answer has its own finding.
    answering = [one.candidate.interface for one in inspection.dialled if one.works]
    if here is None or not answering:
        return
    strange = {
        one.url: reason
        for one in answering
        if (reason := _strange(one, secure=here.secure, is_local=here.is_local))
    }
    for url, reason in strange.items():
        fix = "write the URL that callers use in the card: --public-url, --public-grpc"
        yield Finding("public URL", False, f"{url}: {reason}", fix)
    if not strange:
        yield Finding("public URL", True, "the card names addresses that callers can use")


def _strange(one: hub.AgentInterface, *, secure: bool, is_local: bool) -> str:
    found = place_of(one.url)
    if found is None:
        return "" if one.url.startswith(("unix", "dns")) else "it is no address"
    if found.host in ("0.0.0.0", "::"):  # noqa: S104  compared with
        return f"{found.host} means every address of the machine that listens, and is none to call"
    if found.is_local and not is_local:
        return "only the machine of the agent itself can call it"
    if secure and not is_local and one.url.startswith("http://") and one.protocol_binding != GRPC.name:
        return "the card is read over https, and this URL begins with http://"
    return ""


def _once(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates without the repetitions that cards of 0.x have for gRPC."""
    found: dict[tuple[str, str, str], Candidate] = {}
    for one in candidates:
        found.setdefault((one.interface.protocol_binding, one.interface.protocol_version, _key(one)), one)
    return list(found.values())


def _key(candidate: Candidate) -> str:
    """An address without the scheme that some entries for gRPC have, and without the slash at its end."""
    url: str = candidate.interface.url
    if candidate.interface.protocol_binding == GRPC.name:
        url = url.partition("://")[2] or url
    return url.rstrip("/")


def _family(dialect: Dialect) -> str:
    """All versions before 1.0 have one variant of the question for a task."""
    return "0.x" if is_old(hub.AgentInterface(protocol_version=dialect.version)) else dialect.version


async def authentication(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Asks each interface without credentials, and compares the response with the card."""
    card = inspection.card
    asked = [one for one in inspection.dialled if one.works]
    if not asked:
        return
    demanded = list_required(card)
    open_to_all: list[str] = []
    closed: list[str] = []
    for one in asked:
        error = one.error
        if inspection.options.parameters:
            error = await ask(one.candidate, inspection.dial_options(anonymous=True), inspection.limit)
        rejected = error is not None and error.reason.kind is Kind.CREDENTIALS
        (closed if rejected else open_to_all).append(one.name)
    schemes = ", ".join(demanded)
    if demanded and open_to_all:
        yield Finding(
            "authentication",
            False,
            f"the card asks for {schemes}, and {', '.join(open_to_all)} answers everybody",
            "check the credentials of callers (serve --api-keys FILE, --jwt-issuer URL), or take"
            " securityRequirements (0.x: security) out of the card",
        )
    elif closed and not demanded:
        declared = ", ".join(sorted(card.security_schemes))
        what = (
            f"the card declares {declared} and requires nothing" if declared else "the card declares nothing"
        )
        yield Finding(
            "authentication",
            False,
            f"{', '.join(closed)} asks for credentials, and {what}",
            "declare securitySchemes and securityRequirements (0.x: security) in the card, which tell clients"
            " what to send",
        )
    elif closed:
        yield Finding("authentication", True, f"asks for {schemes}, as the card says")
    else:
        yield Finding("authentication", True, "asks for nothing, as the card says")
