"""The card: where it is and how it is served, whether its members belong to its versions, its signatures.

Rules of the SDKs that would stumble over the card, by the table of peer profiles:
1. An SDK whose requests have no A2A-Version reads the members of 0.x only. All other SDKs read the members of
   1.0 if there are any.
2. Of several gRPC entries, an SDK dials the first or the last (`GrpcAddress.entry`). Most SDKs cannot dial a
   URL.
3. For a reader that rejects a whole card, the advice is the card that the server gives for a query, if the
   reader accepts such a card.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from a2a_bridge.bindings.binding import Fetch, Fetched, http_fetch
from a2a_bridge.bindings.places import place_of
from a2a_bridge.cards.read import parse_bytes
from a2a_bridge.cards.resolve import card_locations
from a2a_bridge.cli.connect import card_file, found_at
from a2a_bridge.cli.target import TargetKind
from a2a_bridge.codec import JsonSyntaxError, loads
from a2a_bridge.codec.required import missing_required
from a2a_bridge.core.call import VERSION_PARAMETER
from a2a_bridge.core.errors import A2AError, cause_of
from a2a_bridge.core.extras import MissingExtraError
from a2a_bridge.dialects import GRPC, V1_0, by_version
from a2a_bridge.dialects.v0_3.card import OLD_WELL_KNOWN_PATH, WELL_KNOWN_PATH, is_old
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import Profile, profiles
from a2a_bridge.signing import ReceivedCard, UnverifiedCardError
from a2a_bridge_tools.check.inspection import Finding, Inspection

#: paths where cards are found that no reader looks at
_WRONG_PATHS = ("/agent-card.json", "/agent.json", "/.well-known/agent-card", "/.well-known/a2a")
_JSON = re.compile(r"application/([a-z0-9.-]+\+)?json")
_HEADERS = {
    "accept": "application/json, application/a2a+json",
    # Some servers answer only pages of browsers with headers for them.
    "origin": "https://a2a-bridge.example",
}


async def card(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Reads the card. Leaves `card`, `tree`, `location` and `documents`."""
    try:
        if inspection.target.sort is TargetKind.URL:
            async with http_fetch(inspection.dial_options()) as fetch:
                async for finding in _at_urls(inspection, fetch):
                    yield finding
        elif inspection.target.sort is TargetKind.CARD:
            inspection.card = card_file(Path(inspection.target.place))
            yield Finding("card", True, f"{inspection.target.place}: {_words(inspection.card)}")
        else:
            inspection.card, inspection.options = await found_at(inspection.target, inspection.dial_options())
            yield Finding("card", True, f"over gRPC: {_words(inspection.card)}")
    except A2AError as error:
        fix = "let the agent answer the request for its card"
        if "client certificate" in cause_of(error):
            fix = "give the certificate that the agent asks its callers for: --cert FILE --cert-key FILE"
        yield Finding("card", False, cause_of(error), fix)
    inspection.is_over = not inspection.card.supported_interfaces


async def check_serving(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """How the server of the card marks it: content type, caching, access from browsers."""
    found = inspection.documents.get(inspection.location)
    if found is None:
        return
    media_type = found.headers.get("content-type", "").partition(";")[0].strip().lower()
    if _JSON.fullmatch(media_type):
        yield Finding("card content type", True, media_type)
    else:
        yield Finding(
            "card content type",
            False,
            f"the card is served as {media_type or 'nothing'}",
            "serve it with Content-Type: application/json; several clients reject to parse anything else",
        )
    control, etag = found.headers.get("cache-control", ""), found.headers.get("etag", "")
    advice = ""
    if "max-age" not in control and not etag:
        advice = "send Cache-Control: max-age=… and an ETag, so that clients need not read it for each call"
    elif etag:
        try:
            async with http_fetch(inspection.dial_options()) as fetch:
                again = await fetch(inspection.location, {**_HEADERS, "if-none-match": etag})
        except A2AError as error:
            advice = f"answer If-None-Match with 304; there was no answer: {cause_of(error)}"
        else:
            if again.status != 304:
                advice = f"answer If-None-Match with 304; it was answered with {again.status}"
    shown = ", ".join(filter(None, (control, f"ETag {etag}" if etag else "")))
    yield Finding("card caching", True, shown or "neither Cache-Control nor ETag", advice)
    allowed = found.headers.get("access-control-allow-origin", "")
    yield Finding(
        "card CORS",
        True,
        f"Access-Control-Allow-Origin: {allowed}" if allowed else "pages in browsers cannot read the card",
        "" if allowed else "send Access-Control-Allow-Origin: * with the card, if browsers are callers",
    )


async def _at_urls(inspection: Inspection, fetch: Fetch) -> AsyncGenerator[Finding, None]:
    base = inspection.target.place
    locations = card_locations(base, exact=inspection.options.exact)
    problems: list[str] = []
    failed: A2AError | None = None
    for location in locations:
        try:
            problem = await _look(inspection, fetch, location)
        except A2AError as error:
            # Some servers close the connection for a path that they do not have.
            failed = failed or error
            continue
        if problem:
            problems.append(f"{_path(location)} {problem}")
    if failed is not None and not inspection.location:
        raise failed
    if inspection.location:
        yield _found(inspection, base)
        return
    for location in _wrong_locations(base, locations):
        if not await _look(inspection, fetch, location):
            fix = f"serve it at {WELL_KNOWN_PATH}, where clients look, or name its URL: {location}"
            yield Finding("card", False, f"{_words(inspection.card)}, found at {_path(location)} only", fix)
            return
    yield Finding(
        "card", False, f"no agent card at {base}: {'; '.join(problems)}", _fix(inspection, locations)
    )


async def _look(inspection: Inspection, fetch: Fetch, location: str) -> str:
    """Fetches a location. The first card becomes the card of the inspection. Returns why there is none."""
    found = inspection.documents[location] = await fetch(location, _HEADERS)
    if found.status != 200:
        return f"answered {found.status}"
    try:
        read = parse_bytes(found.body, location)
    except A2AError as error:
        return f"answered 200 with what is no card: {error.message}"
    if not inspection.location:
        inspection.card, inspection.location = read, location
        inspection.tree = _tree(found.body)
    return ""


def _tree(body: bytes) -> dict[str, Any]:
    found = loads(body)
    return found if isinstance(found, dict) else {}  # it is one: a card was read from it


def _found(inspection: Inspection, base: str) -> Finding:
    """The finding about a card that was found, and about the other path."""
    card, location = inspection.card, inspection.location
    detail = f"{_path(location)}: {_words(card)}"
    own = card_locations(base, exact=True)
    if location not in own:
        return Finding(
            "card",
            True,
            f"{detail}; {urlsplit(base).path} has none of its own",
            f"serve one at {_path(own[0])}, unless this is the agent that you mean",
        )
    if len(own) == 1:
        return Finding("card", True, detail)
    path = OLD_WELL_KNOWN_PATH if all(map(_is_0_2, card.supported_interfaces)) else WELL_KNOWN_PATH
    if not location.endswith(path) and not any(
        one.endswith(path) and _is_card(inspection.documents.get(one)) for one in own
    ):
        version = "0.2" if path == OLD_WELL_KNOWN_PATH else "0.3 and 1.0"
        fix = f"serve it at {path} too: clients of {version} look there"
        return Finding("card", False, f"{detail}, and none at {path}", fix)
    for other in own:
        if (
            other != location
            and _is_card(inspection.documents.get(other))
            and _addresses(parse_bytes(inspection.documents[other].body, other)) != _addresses(card)
        ):
            return Finding(
                "card",
                False,
                f"{detail}; {_path(other)} shows another one",
                "serve the same card at both paths: which one a client reads depends on its version",
            )
    return Finding("card", True, detail)


def _is_0_2(one: hub.AgentInterface) -> bool:
    return is_old(one) and one.protocol_version.startswith(("0.1", "0.2"))


def _is_card(found: Fetched | None) -> bool:
    if found is None or found.status != 200:
        return False
    try:
        parse_bytes(found.body, "")
    except A2AError:
        return False
    return True


def _addresses(card: hub.AgentCard) -> set[tuple[str, str]]:
    return {(one.protocol_binding, one.url) for one in card.supported_interfaces}


def _wrong_locations(base: str, tried: Sequence[str]) -> list[str]:
    parts = urlsplit(base)
    if parts.query or parts.path.endswith(".json"):
        return []
    below = parts.path.rstrip("/")
    found = [urlunsplit((parts.scheme, parts.netloc, below + path, "", "")) for path in _WRONG_PATHS]
    return [one for one in found if one not in tried]


def _fix(inspection: Inspection, locations: Sequence[str]) -> str:
    """What to do without a card, by the first response that says something."""
    for location in locations:
        found = inspection.documents.get(location)
        if found is None:
            continue
        if found.status in (401, 403):
            return (
                "serve the card without authentication, name the URL of the card if it is elsewhere, or give"
                " credentials: -H 'Authorization: Bearer TOKEN'"
            )
        if 300 <= found.status < 400:
            where = found.headers.get("location", "")
            return f"name the URL that it leads to: {where[:200]}"
        if found.status >= 500:
            return f"see the log of the server: {_path(location)} is there and fails"
        if found.status == 200:
            try:
                loads(found.body)
            except JsonSyntaxError:
                return f"serve the card as JSON at {_path(location)}; a page is there instead"
            return f"complete the card at {_path(location)}: {_reason(found, location)}"
    return (
        f"serve the card at {_path(locations[0])}, or name its URL; --card of `gateway` takes one from a file"
    )


def _reason(found: Fetched, location: str) -> str:
    try:
        parse_bytes(found.body, _path(location))
    except A2AError as error:
        return error.message
    return "it is one now"


def _path(location: str) -> str:
    parts = urlsplit(location)
    return f"{parts.path}?…" if parts.query else parts.path


def _words(card: hub.AgentCard) -> str:
    versions = dict.fromkeys(one.protocol_version for one in card.supported_interfaces)
    title = " ".join(filter(None, (card.name or "an agent without a name", card.version)))
    return f"{title}, A2A {', '.join(versions)}"


#: members that are named, at most
_MOST = 5


async def schema(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """One finding for each version whose members the card has."""
    tree = inspection.tree
    if tree is None:
        return
    if tree.get("supportedInterfaces"):
        yield _build_finding("1.0", _faults_of_1_0(tree))
    if isinstance(tree.get("url"), str):
        declared = tree.get("protocolVersion")
        dialect = by_version(declared) if isinstance(declared, str) else None
        if dialect is V1_0:
            if not tree.get("supportedInterfaces"):
                # 0.3 has these members, whatever they are called.
                fault = f"protocolVersion is {declared}, and the members are those of 0.3"
                yield Finding("card schema 1.0", False, fault, _REWRITE)
            return
        older = dialect is not None and dialect.version < "0.3"
        yield _build_finding("0.2.5" if older else "0.3", _faults_of_0_x(tree, older=older))


_REWRITE = (
    "list the interfaces in supportedInterfaces, each with url, protocolBinding and protocolVersion, or write"
    ' "protocolVersion": "0.3.0"'
)


def _build_finding(version: str, faults: list[str]) -> Finding:
    if not faults:
        return Finding(f"card schema {version}", True, "every required member is there")
    shown = "; ".join(faults[:_MOST])
    return Finding(
        f"card schema {version}",
        False,
        shown + (f"; and {len(faults) - _MOST} more" if len(faults) > _MOST else ""),
        "correct these members: strict clients reject the whole card",
    )


def _faults_of_1_0(tree: Mapping[str, Any]) -> list[str]:
    try:
        card = V1_0.card.decode(dict(tree))
    except A2AError as error:
        return [f"{one.field}: {one.description}" for one in error.violations] or [error.message]
    return [f"{path} is missing" for path in missing_required(card) if not _is_there(tree, path)]


def _is_there(tree: Mapping[str, Any], path: str) -> bool:
    """Whether JSON has a member that protobuf cannot tell from an absent one: an empty list or text."""
    found: Any = tree
    for name in path.replace("[", ".[").split("."):
        if name.startswith("["):
            index = int(name[1:-1])
            found = found[index] if isinstance(found, list) and index < len(found) else None
        else:
            found = found.get(name) if isinstance(found, Mapping) else None
    return found is not None


def _faults_of_0_x(tree: Mapping[str, Any], *, older: bool) -> list[str]:
    if older:
        from a2a_bridge.dialects.v0_2_5 import models as models_0_2

        found = models_0_2.check(models_0_2.AgentCard, dict(tree))
    else:
        from a2a_bridge.dialects.v0_3 import models

        found = models.check(models.AgentCard, dict(tree))
    return [f"{one.field}: {one.description}" for one in found]


async def signatures(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """Whether the card is signed, and by whom; verifies it if keys are given."""
    found = inspection.documents.get(inspection.location)
    if found is None or inspection.tree is None:
        return
    if not inspection.tree.get("signatures"):
        if inspection.trust is None:
            yield Finding("card signatures", True, "none")
        else:
            yield Finding("card signatures", False, "none", "sign the card: `serve --card-signing-key FILE`")
        return
    try:
        received = ReceivedCard(found.body)
    except UnverifiedCardError as error:
        yield Finding("card signatures", False, str(error), "sign the card again, with RFC 8785 and RFC 7515")
        return
    except MissingExtraError as error:
        yield Finding("card signatures", True, "not looked at", error.remedy)
        return
    if received.problems and not received.signatures:
        fix = "sign the card again, with RFC 8785 and RFC 7515"
        yield Finding("card signatures", False, "; ".join(received.problems), fix)
        return
    signers = ", ".join(f"{one.kid} ({one.algorithm})" for one in received.signatures)
    if inspection.trust is not None:
        try:
            await inspection.trust(found.body, inspection.location)
        except A2AError as error:
            fix = (
                "sign the card that is served, after everything else about it is set; or name the right keys"
            )
            yield Finding("card signatures", False, cause_of(error), fix)
        else:
            yield Finding("card signatures", True, f"verified: {signers}")
        return
    key_sets = ", ".join(dict.fromkeys(one.jku for one in received.signatures if one.jku))
    advice = f"verify it with the keys of its signer: --card-keys {key_sets or 'FILE|URL'}"
    yield Finding("card signatures", True, f"by {signers}; not verified", advice)


_GRPC_FIX = (
    "write host:port for gRPC, without a scheme; in additionalInterfaces of 0.x first and last of the gRPC"
    " entries (serve and gateway: --grpc-urls both-in-0.x)"
)
#: the query for the card without gRPC, of servers that have one
_HTTP_ONLY = "binding=JSONRPC&binding=HTTP%2BJSON"
_HTTP_FIX = (
    "publish a card with interfaces at its own origin only (serve and gateway: --advertise JSONRPC,HTTP+JSON)"
)


#: the query for the card of 1.0, of servers that have one
_NEWEST_ONLY = "version=1.0"
_EXACT_FIX = (
    "give such a client a card of 1.0 (here: the card with the query ?version=1.0 for one client,"
    " --card-versions 1.0 for all); one that sends no A2A-Version needs --lenient-versions, too"
)
_NEWER_FIX = "serve 1.0, too, if such clients call: a gateway does (`a2a-bridge gateway`)"


async def readers(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """One finding for each way in which SDKs stumble."""
    tree = inspection.tree
    if tree is None:
        return
    known = profiles().all
    bare = [one for one in known if one.grpc is not None and one.grpc.form == "bare"]
    addresses = {one.name: _find_dialled(one, tree) for one in bare}
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
        found = await _card_with(inspection, _NEWEST_ONLY)
        is_offered = bool(found.get("supportedInterfaces")) and not _is_mixed(found)
        yield Finding("SDKs of 1.0 only", True, detail, _EXACT_FIX if is_offered else _NEWER_FIX)
    if not undialled and not unread and not rejecting and not exact:
        yield Finding("SDKs", True, f"all {len(known)} known SDKs can read this card")


def _is_mixed(tree: Mapping[str, Any]) -> bool:
    """Whether a card of 1.0 has the members of 0.x, too."""
    return "supportedInterfaces" in tree and ("protocolVersion" in tree or "url" in tree)


def _declares(profile: Profile) -> bool:
    """Whether its clients send A2A-Version, as clients of 1.x do."""
    return any(VERSION_PARAMETER in signs.sends for signs in profile.callers)


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


async def _card_with(inspection: Inspection, query: str) -> Mapping[str, Any]:
    """The card that the server has for a query; empty if it has none. Advice is tried before it is given."""
    asked = f"{inspection.location}{'&' if '?' in inspection.location else '?'}{query}"
    try:
        async with http_fetch(inspection.dial_options()) as fetch:
            reply = await fetch(asked, {})
            tree: Any = loads(reply.body) if reply.status == 200 else {}
    except (A2AError, JsonSyntaxError):
        return {}
    return tree if isinstance(tree, dict) else {}


async def _http_fix(inspection: Inspection) -> str:
    """The advice for readers of HTTP: the query, if the server has a card for it that they accept."""
    tree = await _card_with(inspection, _HTTP_ONLY)
    if not tree.get("supportedInterfaces") or not _is_at_origin(tree, inspection.location):
        return _HTTP_FIX
    return (
        f"such a reader needs the card with the query ?{_HTTP_ONLY}; Google ADK sends it with"
        " httpx_client=httpx.AsyncClient(params={'binding': ['JSONRPC', 'HTTP+JSON']})"
    )
