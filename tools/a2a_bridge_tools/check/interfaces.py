"""Every interface of the card is dialled: in the version that the card names, and in the other one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from a2a_bridge.bindings.binding import names
from a2a_bridge.cards import Candidate, select
from a2a_bridge.cards.read import assumption
from a2a_bridge.cards.select import unusable
from a2a_bridge.cli.advertised import FAULTS, ask, fault_of
from a2a_bridge.core.errors import A2AError, Reason, cause_of
from a2a_bridge.dialects import GRPC, KNOWN, V0_3, V1_0, BindingKind, Dialect
from a2a_bridge.dialects.v0_3.card import is_old
from a2a_bridge.gateway.destinations import Destination, Destinations, move_to, place_of
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.check.inspection import Dialled, Finding, Inspection
from a2a_bridge_tools.check.network import place

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
