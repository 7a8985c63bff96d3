"""Which SDKs would stumble over the card, by the table of peer profiles.

Rules:
1. An SDK whose requests have no A2A-Version reads the members of 0.x only; the others read those of 1.0 if
   there are any.
2. Of several gRPC entries, an SDK dials the first or the last (`GrpcAddress.entry`), and most cannot dial a
   URL.
3. For a reader that rejects a whole card, the advice is the card that the server gives for a query, if it has
   one that this reader accepts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from a2a_bridge.bindings.binding import http_fetch
from a2a_bridge.codec import JsonSyntaxError, loads
from a2a_bridge.core.call import VERSION_PARAMETER
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import GRPC
from a2a_bridge.gateway.destinations import place_of
from a2a_bridge.peers import Profile, profiles
from a2a_bridge_tools.check.inspection import Finding, Inspection

_GRPC_FIX = (
    "write host:port for gRPC, without a scheme; in additionalInterfaces of 0.x first and last of the gRPC"
    " entries (serve and gateway: --grpc-urls both-in-0.x)"
)
#: the query for the card without gRPC, of servers that have one
_HTTP_ONLY = "binding=JSONRPC&binding=HTTP%2BJSON"
_HTTP_FIX = (
    "publish a card with interfaces at its own origin only (serve and gateway: --advertise JSONRPC,HTTP+JSON)"
)


_EXACT_FIX = (
    "give such a client a card of 1.0 (serve and gateway: /.well-known/agent-card.json?version=1.0 for one"
    " client, --card-versions 1.0 for all); one that sends no A2A-Version needs --lenient-versions, too"
)


async def readers(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """One finding for each way in which SDKs stumble."""
    tree = inspection.tree
    if tree is None:
        return
    known = profiles().all
    addresses = {one.name: _find_dialled(one, tree) for one in known if _needs_bare(one)}
    undialled = {name: url for name, url in addresses.items() if "://" in url}
    for url in dict.fromkeys(undialled.values()):
        who = ", ".join(name for name, found in undialled.items() if found == url)
        yield Finding("SDKs over gRPC", False, f"cannot dial {url}: {who}", _GRPC_FIX)
    unread = [one for one in known if one.grpc and not _declares(one) and "url" not in tree]
    if unread:
        names = ", ".join(one.name for one in unread)
        advice = "serve 0.3 too, if such clients call: a gateway does (`a2a-bridge gateway`)"
        yield Finding("SDKs of 0.3", True, f"cannot read a card of 1.0 only: {names}", advice)
    rejecting = [
        one for one in known if one.quirks.http_cards and not _is_at_origin(tree, inspection.location)
    ]
    if rejecting:
        names = ", ".join(one.name for one in rejecting)
        detail = f"reject the whole card, because not every interface is an HTTP URL of its origin: {names}"
        yield Finding("SDKs of HTTP", True, detail, await _http_fix(inspection))
    exact = [one for one in known if one.quirks.exact_cards and _is_mixed(tree)]
    if exact:
        names = ", ".join(one.name for one in exact)
        detail = f"reject the whole card, because members of 0.x are beside those of 1.0: {names}"
        yield Finding("SDKs of 1.0 only", True, detail, _EXACT_FIX)
    if not undialled and not unread and not rejecting and not exact:
        yield Finding("SDKs", True, f"all {len(known)} known SDKs can read this card")


def _is_mixed(tree: Mapping[str, Any]) -> bool:
    """Whether a card of 1.0 has the members of 0.x, too."""
    return "supportedInterfaces" in tree and ("protocolVersion" in tree or "url" in tree)


def _declares(profile: Profile) -> bool:
    """Whether its clients send A2A-Version, as clients of 1.x do."""
    return any(VERSION_PARAMETER in signs.sends for signs in profile.callers)


def _needs_bare(profile: Profile) -> bool:
    return profile.grpc is not None and profile.grpc.form == "bare"


def _find_dialled(profile: Profile, tree: Mapping[str, Any]) -> str:
    """The gRPC address of the card that an SDK would dial; empty if none is known."""
    if profile.grpc is None:
        return ""
    of_1_0 = _texts(tree.get("supportedInterfaces"), "protocolBinding")
    found = of_1_0 if of_1_0 and _declares(profile) else _of_0_x(tree)
    if not found:
        return ""
    return found[-1] if profile.grpc.entry == "last" and found is not of_1_0 else found[0]


def _of_0_x(tree: Mapping[str, Any]) -> list[str]:
    main = {"url": tree.get("url"), "transport": tree.get("preferredTransport")}
    return _texts([main], "transport") + _texts(tree.get("additionalInterfaces"), "transport")


def _texts(rows: Any, member: str) -> list[str]:
    """The addresses for gRPC in a list of interfaces."""
    found: Sequence[Any] = rows if isinstance(rows, list) else ()
    grpc = [one for one in found if isinstance(one, Mapping) and one.get(member) == GRPC.name]
    return [str(one["url"]) for one in grpc if one.get("url")]


def _is_at_origin(tree: Any, location: str) -> bool:
    """Whether every interface of a card of 1.0 is an HTTP URL at the origin of the card."""
    rows = tree.get("supportedInterfaces") if isinstance(tree, Mapping) else None
    urls = [one.get("url") for one in rows if isinstance(one, Mapping)] if isinstance(rows, list) else []
    origin = place_of(location)
    return all(
        isinstance(url, str) and url.startswith(("http://", "https://")) and place_of(url) == origin
        for url in urls
    )


async def _http_fix(inspection: Inspection) -> str:
    """The advice for readers of HTTP: the query, if the server has a card for it that they accept."""
    asked = f"{inspection.location}{'&' if '?' in inspection.location else '?'}{_HTTP_ONLY}"
    try:
        async with http_fetch(inspection.dial_options()) as fetch:
            tree = loads((await fetch(asked, {})).body)
    except (A2AError, JsonSyntaxError):
        return _HTTP_FIX
    if not isinstance(tree, dict) or not tree.get("supportedInterfaces") or not _is_at_origin(tree, asked):
        return _HTTP_FIX
    return (
        f"such a reader needs the card with the query ?{_HTTP_ONLY}; Google ADK sends it with"
        " httpx_client=httpx.AsyncClient(params={'binding': ['JSONRPC', 'HTTP+JSON']})"
    )
