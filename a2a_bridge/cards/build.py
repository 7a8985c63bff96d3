"""The card that a server publishes: the declared card with the mounted interfaces. It fetches nothing.

Rules:
1. The interfaces of the card are exactly the mounted ones, in their order.
2. URLs are made from the public URL if there is one, else from the URL of the request.
3. gRPC interfaces are written as `host:port` (spec 5.8), all others as URLs, and those of HTTP+JSON without a
   trailing slash, because clients append `/message:send`. In the members of 0.x a gRPC interface stands three
   times: as the `host:port` that SDKs pass to gRPC, as the URL that 0.3 requires, and as `host:port` again.
   Of several entries for one transport the SDKs for Go and Java dial the first, the one for Python the last,
   and none of them dials a URL. `GrpcUrls` selects other forms.
4. With an interface of 0.x the document has the members of 0.x too, and is also served at the path of 0.2.
   `url` is the first interface of the newest 0.x version. `additionalInterfaces` lists the interfaces of 0.x,
   including that one (A2A 0.3, 5.6.2): per transport those of the newest 0.x version, without duplicates.
5. Some readers reject a whole card because of one interface. So a reader can select bindings
   (`?binding=JSONRPC&binding=HTTP%2BJSON`), and an operator can leave served bindings out of the card.
6. The document for all versions is not valid under the schema of one. A reader that names a version, by
   `?version=1.0` or by the header A2A-Version, gets the card of that version. A version that is not served is
   rejected in a query. It is ignored in a header, because clients send the header with every request; so is a
   version in a header that lacks a binding of the card, because the client may want this binding. `versions`
   limits the document to these versions for all readers.

Rules of one document for readers of 1.0 and of older versions:
1. The members of 1.0 are written first. Each older version adds its own, newest first: `url`,
   `protocolVersion`, `preferredTransport`, `additionalInterfaces`, `security`,
   `supportsAuthenticatedExtendedCard`.
2. A member that both versions have holds both forms: a security scheme has the member of 1.0 for its type,
   and beside it the `type` and the members of 0.x. Objects are merged member by member, lists of equal length
   item by item; values that are there already stay.
3. All known readers ignore unknown members. Older members that change the meaning for 1.0 are left out.
4. Signatures stay unchanged. They cover the document that was signed, which is not this one.
5. Readers of 0.2 reject a whole card with a scheme of a later type, mutual TLS. At their path such schemes
   are left out: the other schemes of a requirement remain, and the TLS handshake enforces the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

from a2a_bridge.bindings.binding import Document, ListenAddress, Variant, module_name
from a2a_bridge.cards.select import expressible, note_inexpressible
from a2a_bridge.codec import Json, JsonObject, JsonSyntaxError, loads
from a2a_bridge.codec import dumps as dumps_plain
from a2a_bridge.core.errors import A2AError, invalid_params
from a2a_bridge.core.kinds import Kinds, check_values
from a2a_bridge.core.option_classes import GrpcUrls, ServeValues
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, KNOWN, V1_0, Dialect, by_version
from a2a_bridge.dialects.known import normalise
from a2a_bridge.dialects.signed_extras import dumps
from a2a_bridge.dialects.v0_3.card import OLD_WELL_KNOWN_PATH, is_old, main_interface, places, without_carrier
from a2a_bridge.pb import lf_a2a_v1 as hub

#: the type of scheme that 0.3 added
_LATER = "mutualTLS"


def dual(card: hub.AgentCard, for_older: hub.AgentCard, dialects: Iterable[Dialect]) -> JsonObject:
    """The card in 1.0 and in the older `dialects`. for_older: the card with the interfaces for those."""
    document = V1_0.card.encode(expressible(without_carrier(card)))
    decoded = _decode(document)
    for dialect in dialects:
        beside = dialect.card.beside or dialect.card.encode
        for source in (for_older, without_carrier(for_older), expressible(without_carrier(for_older))):
            merged = _merge(document, beside(source))
            if decoded is not None and _decode(merged) == decoded:
                document = merged
                break
    return document


def without_mutual_tls(document: JsonObject) -> JsonObject:
    """The document without schemes of mutual TLS: the same object if there is none."""
    schemes = document.get("securitySchemes", {})
    unknown = {name for name, scheme in schemes.items() if scheme.get("type") == _LATER}
    if not unknown:
        return document
    made = _remove_requirements(document, unknown)
    made["securitySchemes"] = {name: scheme for name, scheme in schemes.items() if name not in unknown}
    made["skills"] = [_remove_requirements(skill, unknown) for skill in document["skills"]]
    return made


def _remove_requirements(tree: JsonObject, names: Collection[str]) -> JsonObject:
    """The card or skill, with these schemes removed from its requirements."""

    def others(schemes: JsonObject) -> JsonObject:
        return {name: scopes for name, scopes in schemes.items() if name not in names}

    made = dict(tree)
    if "security" in tree:
        made["security"] = [others(one) for one in tree["security"]]
    if "securityRequirements" in tree:
        made["securityRequirements"] = [
            {"schemes": others(one.get("schemes", {}))} for one in tree["securityRequirements"]
        ]
    return made


def _decode(document: JsonObject) -> hub.AgentCard | None:
    # Without codes before preserved texts: those would be a difference, and change the document.
    try:
        return V1_0.card.decode(cast("JsonObject", loads(dumps_plain(document))))
    except (A2AError, JsonSyntaxError):
        return None


def _merge(first: JsonObject, second: JsonObject) -> JsonObject:
    merged = dict(first)
    for name, value in second.items():
        merged[name] = _both(merged[name], value) if name in merged else value
    return merged


def _both(first: Json, second: Json) -> Json:
    if type(first) is dict and type(second) is dict:
        return _merge(first, second)
    if type(first) is list and type(second) is list and len(first) == len(second):
        return [_both(one, other) for one, other in zip(first, second, strict=True)]
    return first


WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  compared with, never listened on

#: our bindings by name, however they are written
_OWN = {module_name(one.name): one.name for one in (JSONRPC, HTTP_JSON, GRPC)}

#: what people call HTTP+JSON otherwise
_NAMES_OF_HTTP_JSON = frozenset({"rest", "http", "https", "json"})

_ARGUMENTS: Kinds = dict.fromkeys(("binding", "url", "version", "tenant"), ((str,), "text"))

#: members of a query that select bindings, repeated or as a list with commas
_QUERY = frozenset({"binding", "bindings"})

#: documents in the cache, at most; callers choose the Host header, so the cache is bounded
_REMEMBERED = 64


#: the readers that a document is for
WHOLE, FOR_0_2 = "all", "0.2"

#: the entries of one gRPC interface in the members of 0.x: True for one that is a URL
_ENTRIES: dict[GrpcUrls, tuple[bool, ...]] = {
    "both-in-0.x": (False, True, False),
    "url-last-in-0.x": (False, True),
    "bare": (False,),
    "http-in-0.x": (True,),
    "http": (True,),
}


def interface(binding: str, url: str = "", *, version: str = "1.0", tenant: str = "") -> hub.AgentInterface:
    """An AgentInterface declaration (spec 4.4.6).

    binding: "JSONRPC", "HTTP+JSON", "GRPC" or another transport's name. version: of the protocol, such as
    "0.3". url: address and path to listen on, such as `http://127.0.0.1:8080/a2a` or `127.0.0.1:50051`. Empty
    means the server's default address and the root path; a path alone (`/a2a`) means the default address.
    Raises TypeError for arguments that are no text, ValueError for another name of HTTP+JSON, and for
    `http://` before the address of gRPC.
    """
    check_values("interface", locals(), _ARGUMENTS)
    name = _OWN.get(module_name(binding), binding)
    if module_name(binding) in _NAMES_OF_HTTP_JSON:
        raise ValueError(f"{binding!r} is HTTP+JSON in A2A: write interface({HTTP_JSON.name!r})")
    if module_name(url) in _OWN:
        raise ValueError(f"the binding comes first: write interface({url!r}, {binding!r})")
    if name == GRPC.name and url.startswith("http://"):
        raise ValueError("the address of gRPC has no http://: write HOST:PORT, or https://HOST:PORT for TLS")
    return hub.AgentInterface(url=url, protocol_binding=name, protocol_version=version, tenant=tenant)


@dataclass(frozen=True, slots=True)
class Mounted:
    """An interface that is served."""

    #: as it was declared
    interface: hub.AgentInterface
    #: the kind of listener: "http", "grpc" or the kind of another transport
    family: str
    #: of the listener
    address: ListenAddress
    #: under which the listener serves it
    path: str = ""

    @property
    def version(self) -> str:
        """The declared protocol version, by the name of the dialect that serves it."""
        dialect = self.dialect
        if dialect is not None:
            return dialect.version
        return normalise(self.interface.protocol_version) or self.interface.protocol_version

    @property
    def dialect(self) -> Dialect | None:
        """The dialect of the declared version; None for an unknown version."""
        return by_version(self.interface.protocol_version)


class _Wanted(NamedTuple):
    """The bindings and the version that a reader selects."""

    #: the only bindings to list, as `bindings.module_name` writes them; empty for all
    bindings: frozenset[str] = frozenset()
    #: the only version; empty for all in one document
    version: str = ""
    #: no wish of the reader: the server of the request can carry gRPC; see `Advertisement.grpc_here`
    grpc: bool = False


_ALL = _Wanted()
_DEFAULTS = ServeValues()


class Advertisement:
    """The card that callers get, which depends on the base URL of their request.

    card: all members except the interfaces. mounted: the interfaces. options: the public addresses, without
    the mount path, and what the card lists; `https://` and port 443 of a public gRPC address mean TLS.
    card_address: the listener that serves the card. secure: the HTTP listeners of this process use TLS.
    grpc_secure: gRPC URLs have the scheme https. carries: the card is of a remote agent: content that
    only an older version has stays in it for further bridges. grpc_here: whether the server below can carry
    gRPC, which has no listener of its own: then the card lists it at the host and port of the request, unless
    the application is mounted below a path. prefix: the path of the agent on a shared host, which base URLs
    have already; gRPC finds the agent by its tenant. sign: signs a card as JSON, except for 0.2, which has no
    signatures. Then all addresses are the public ones and those of the listeners: callers choose the Host
    header, and must not get a signature for a URL of theirs.
    """

    def __init__(
        self,
        card: hub.AgentCard,
        mounted: Sequence[Mounted],
        options: ServeValues = _DEFAULTS,
        *,
        card_address: ListenAddress | None = None,
        secure: bool = False,
        grpc_secure: bool = False,
        carries: bool = False,
        grpc_here: Callable[[], bool] | None = None,
        prefix: str = "",
        sign: Callable[[bytes], bytes] | None = None,
    ) -> None:
        note_inexpressible(card)
        self._card = card
        self._bindings = frozenset(map(module_name, options.advertise))
        self._versions = frozenset(options.card_versions)
        self._carries = carries
        self._grpc_here = grpc_here
        self._prefix = prefix
        self._sign = sign
        self._grpc_urls = options.grpc_urls
        self.mounted = tuple(mounted)
        self._card_address = card_address
        self._public_url = options.public_url.rstrip("/")
        scheme, named, rest = options.public_grpc.partition("://")
        self._public_grpc = rest if named else options.public_grpc
        secured = grpc_secure or scheme == "https" or self._public_grpc.endswith(":443")
        self._grpc_scheme = "https" if secured else "http"
        self._scheme = "https" if secure else "http"
        self._documents: dict[tuple[str, str, _Wanted], bytes] = {}

    def replace(self, card: hub.AgentCard) -> None:
        """Shows another card from now on; its interfaces do not count."""
        note_inexpressible(card)
        self._card = card
        self._documents.clear()

    def settle(self, mounted: Sequence[Mounted], card_address: ListenAddress | None) -> None:
        """Set the addresses that the system assigned when the listeners were opened."""
        self.mounted = tuple(mounted)
        self._card_address = card_address
        self._documents.clear()

    @property
    def described(self) -> hub.AgentCard:
        """The members of the card that are the same for all callers; another object after a change."""
        return self._card

    def card(self, base_url: str = "") -> hub.AgentCard:
        """The card for a request to `base_url` (scheme, host, mount prefix)."""
        here = self._grpc_here is not None and self._grpc_here()
        return self._made(base_url.rstrip("/"), _ALL._replace(grpc=here))

    def card_with_tls(self) -> hub.AgentCard:
        """The card as our own reader has it: gRPC over TLS has `https://` (see `cards.read`)."""
        made = self.card()
        for one in made.supported_interfaces if self._grpc_scheme == "https" else ():
            if one.protocol_binding == GRPC.name and "://" not in one.url and not one.url.endswith(":443"):
                one.url = f"https://{one.url}"
        return made

    def _made(self, base_url: str, wanted: _Wanted) -> hub.AgentCard:
        made = hub.AgentCard()
        made.CopyFrom(self._card if self._carries else without_carrier(self._card))
        del made.supported_interfaces[:]
        made.supported_interfaces.extend(self._interfaces(base_url, wanted, http=self._grpc_urls == "http"))
        return made

    def document(self, base_url: str) -> bytes:
        """The card as JSON. With interfaces of 1.0 only it has no members of other versions."""
        return self._build_cached(base_url, WHOLE)

    def document_for_0_2(self, base_url: str) -> bytes:
        """The document at the path of 0.2: without schemes for which readers of 0.2 reject a card."""
        return self._build_cached(base_url, FOR_0_2)

    def at(self, path: str) -> Document:
        """The document to serve at one of `paths`."""
        return self.document_for_0_2 if path == OLD_WELL_KNOWN_PATH else self.document

    def variant_at(self, path: str) -> Variant:
        """The document to serve at one of `paths` to requests with a query or a version."""
        reader = FOR_0_2 if path == OLD_WELL_KNOWN_PATH else WHOLE

        def document(base_url: str, query: str, version: str) -> bytes:
            wanted = self._select(query, version, base_url)
            old = wanted.version == "0.2.5"
            return self._build_cached(base_url, FOR_0_2 if old else reader, wanted)

        return document

    def _select(self, query: str, declared: str, base_url: str) -> _Wanted:
        """The selection of a query and a version header. Raises INVALID_PARAMS if the card has none of it."""
        pairs = parse_qsl(query)
        # A plus sign in a query is a space: HTTP+JSON arrives as "HTTP JSON".
        texts = [value for name, value in pairs if name in _QUERY]
        bindings = {module_name(one) for text in texts for one in text.split(",") if one.strip()}
        here = self._grpc_here is not None and self._grpc_here()
        all_listed = self._list_interfaces(_ALL._replace(grpc=here), base_url)
        listed = {module_name(one.interface.protocol_binding): one for one in all_listed}
        if bindings and bindings.isdisjoint(listed):
            kinds = ", ".join(dict.fromkeys(one.interface.protocol_binding for one in listed.values()))
            raise invalid_params("binding", f"names none of the bindings of this card: {kinds}")
        bindings &= listed.keys()
        versions = list(dict.fromkeys(one.version for one in all_listed))
        version = _newest_of(declared)
        has = {module_name(one.interface.protocol_binding) for one in all_listed if one.version == version}
        if not has >= (bindings or listed.keys()):
            version = ""
        for named in (value for name, value in pairs if name == "version" and value.strip()):
            version = _newest_of(named)
            if version not in versions:
                raise invalid_params(
                    "version", f"is none of the versions of this card: {', '.join(versions)}"
                )
        return _Wanted(frozenset(bindings), version)

    def _list_interfaces(self, wanted: _Wanted, base_url: str) -> list[Mounted]:
        """The interfaces that the card lists for a selection."""
        grpc = (
            self._grpc_here is None
            or bool(self._public_grpc)
            or (wanted.grpc and _path(base_url) in ("", self._prefix.strip("/")))
        )
        return [
            one
            for one in self.mounted
            if grpc or one.family != "grpc"
            for name in (module_name(one.interface.protocol_binding),)
            if (not self._bindings or name in self._bindings)
            and (not self._versions or one.version in self._versions)
            and (not wanted.bindings or name in wanted.bindings)
            and (not wanted.version or one.version == wanted.version)
        ]

    def paths(self) -> tuple[str, ...]:
        """Well-known paths of the declared versions; with an interface of 0.x also those of 1.0 and 0.2."""
        dialects = [one.dialect for one in self.mounted]
        found = [path for dialect in dialects if dialect is not None for path in dialect.card.paths]
        if self._old(self.mounted):
            found = [*V1_0.card.paths, *found, OLD_WELL_KNOWN_PATH]
        return tuple(dict.fromkeys(found or V1_0.card.paths))

    def _build_cached(self, base_url: str, reader: str, wanted: _Wanted = _ALL) -> bytes:
        base_url = base_url.rstrip("/") if self._sign is None else ""
        if self._grpc_here is not None and self._grpc_here():
            wanted = wanted._replace(grpc=True)
        known = self._documents.get((base_url, reader, wanted))
        if known is None:
            if len(self._documents) >= _REMEMBERED:
                self._documents.clear()
            tree = self._tree(base_url, wanted)
            known = dumps(without_mutual_tls(tree) if reader == FOR_0_2 else tree)
            if self._sign is not None and reader != FOR_0_2:
                known = self._sign(known)
            self._documents[base_url, reader, wanted] = known
        return known

    def _tree(self, base_url: str, wanted: _Wanted) -> JsonObject:
        old = self._old(self._list_interfaces(wanted, base_url))
        if wanted.version and old:
            tree = old[0].card.encode(without_carrier(self._card_for_0_x(base_url, wanted)))
            # A member of 1.0 that holds interfaces which the members of 0.x cannot express.
            tree.pop("supportedInterfaces", None)
            return tree
        card = self._made(base_url, wanted)
        if wanted.version:
            return V1_0.card.encode(expressible(without_carrier(card)))
        if not old:
            return V1_0.card.encode(expressible(card))
        return dual(card, self._card_for_0_x(base_url, wanted), old)

    def _old(self, listed: Iterable[Mounted]) -> list[Dialect]:
        """The declared dialects of 0.x, newest first."""
        declared = [one.dialect for one in listed if is_old(one.interface)]
        return [dialect for dialect in KNOWN if dialect in declared]

    def _card_for_0_x(self, base_url: str, wanted: _Wanted) -> hub.AgentCard:
        """The card with the interfaces for its members of 0.x, the main one first."""
        made = hub.AgentCard()
        made.CopyFrom(self._card)
        del made.supported_interfaces[:]
        listed = places(self._interfaces(base_url, wanted, http=True))
        main = main_interface(listed)
        if main is not None:
            for one in listed:
                one.protocol_version = main.protocol_version  # a card of 0.x has one version for all
            made.supported_interfaces.extend(self._entries(main)[:1])
            for one in listed:
                made.supported_interfaces.extend(self._entries(one))
        return made

    def _entries(self, one: hub.AgentInterface) -> list[hub.AgentInterface]:
        """The entries of an interface in a card of 0.x. The URL of one of gRPC has a scheme."""
        if one.protocol_binding != GRPC.name:
            return [one]
        found = []
        for is_url in _ENTRIES[self._grpc_urls]:
            entry = hub.AgentInterface()
            entry.CopyFrom(one)
            entry.url = one.url if is_url else one.url.partition("://")[2]
            found.append(entry)
        return found

    def _interfaces(self, base_url: str, wanted: _Wanted, *, http: bool) -> list[hub.AgentInterface]:
        made = []
        for one in self._list_interfaces(wanted, base_url):
            added = hub.AgentInterface()
            added.CopyFrom(one.interface)
            added.protocol_version = one.version
            added.url = self._url(one, base_url)
            if http and one.family == "grpc":
                here = self._grpc_here is not None and not self._public_grpc
                scheme = base_url.partition("://")[0] if here and base_url else self._grpc_scheme
                added.url = f"{scheme}://{added.url}"
            made.append(added)
        return made

    def _url(self, one: Mounted, base_url: str) -> str:
        if one.family != "http":
            # gRPC addresses have no scheme in a card; other transports keep the scheme that was declared.
            scheme, separator, _ = one.interface.url.partition("://")
            if one.family == "grpc" or not separator:
                return self._authority(one, base_url)
            return f"{scheme}://{self._authority(one, base_url)}{one.path}"
        path = one.path or ("" if one.interface.protocol_binding == HTTP_JSON.name else "/")
        if self._public_url:
            return self._public_url + path
        if base_url and one.address == self._card_address:
            return base_url + path
        return f"{self._scheme}://{self._authority(one, base_url)}{self._prefix}{path}"

    def _authority(self, one: Mounted, base_url: str) -> str:
        if self._public_grpc and one.interface.protocol_binding == GRPC.name:
            return self._public_grpc
        here = self._public_url or base_url
        if self._grpc_here is not None and one.family == "grpc" and here:
            return _authority_of(here)
        host = one.address.host
        if self._public_url:
            host = host_of(self._public_url) or host
        elif host in WILDCARDS:
            host = host_of(base_url) or "127.0.0.1"
        return str(ListenAddress(host, one.address.port))


def _newest_of(text: str) -> str:
    """The newest known version in a list with commas, such as a repeated header; empty if there is none."""
    named = {by_version(one.strip()) for one in text.split(",")}
    return next((dialect.version for dialect in KNOWN if dialect in named), "")


def host_of(url: str) -> str:
    """The host name in a URL, in lower case; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # callers choose the Host header, and not every [...] is an address
        return ""


def _path(url: str) -> str:
    try:
        return urlsplit(url).path.strip("/")
    except ValueError:
        return ""


def _authority_of(url: str) -> str:
    """Host and port of a URL, with the port of its scheme if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return ""
    return str(ListenAddress(parts.hostname or "", port))
