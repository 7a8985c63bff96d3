"""The card an agent shows: what it declared, with the interfaces that are really mounted. Not the fetching.

Rules:
1. The interfaces of the card are exactly the mounted ones, in their order.
2. URLs come from the public URL if there is one, else from what the caller itself used to reach us.
3. gRPC interfaces are written as `host:port` (spec 5.8), all others as URLs, and those of HTTP+JSON without a
   trailing slash, because clients append `/message:send`. In the members of 0.x a gRPC interface stands twice: as the
   URL that 0.3 requires, then as the `host:port` that the SDKs pass to gRPC; of two entries for one transport they
   take the last. `GrpcUrls` is for readers that want another form.
4. With an interface of 0.x the document has the members of 0.x too (see `dual`), and stands where 0.2 looks for it
   as well. `url` is the first interface of the newest 0.x version; `additionalInterfaces` lists those of 0.x, that
   one again too (A2A 0.3, 5.6.2), for each transport those of the newest 0.x version that has it, each place once.
   With interfaces of 1.0 alone it is a card of 1.0 and nothing else.
5. Some readers refuse a whole card for one interface. So the card can be asked for with some bindings only
   (`?bindings=JSONRPC,HTTP+JSON`), and bindings can be left out of it for everybody while they are served.
6. The document for all versions is not valid under the schema of one. A reader that names a version, by `?version=1.0`
   or by the header A2A-Version, gets the card of that version alone, with the interfaces of that version. A version
   that is not served is refused in a query, and means nothing in a header, which clients send with all they ask for.
   `versions` makes the document one for these versions only, for everybody.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from a2a_bridge.bindings import Document, ListenAddress, Variant, module_name
from a2a_bridge.cards.dual import dual, without_mutual_tls
from a2a_bridge.cards.schemes import expressible, note_inexpressible
from a2a_bridge.codec import JsonObject
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.dialects import GRPC, HTTP_JSON, KNOWN, V1_0, Dialect, by_version
from a2a_bridge.dialects.carrying import dumps
from a2a_bridge.dialects.detect import normalise
from a2a_bridge.dialects.v0_3.card import OLD_WELL_KNOWN_PATH, without_residue
from a2a_bridge.dialects.v0_3.card_interfaces import is_old, main_interface, places
from a2a_bridge.pb import lf_a2a_v1 as hub

WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  compared with, never listened on

#: base URLs a card is remembered for; callers choose the Host header, so this must be bounded
_REMEMBERED = 64


#: whom a document is for
WHOLE, FOR_0_2 = "all", "0.2"

#: how gRPC interfaces are written in the members of 0.x: as URL and as `host:port`, as `host:port` only, or as URL
#: only; `http` writes URLs in the members of 1.0 too, for readers that want all interfaces to be URLs
GrpcUrls = Literal["both-in-0.x", "bare", "http-in-0.x", "http"]


def interface(binding: str, url: str = "", *, version: str = "1.0", tenant: str = "") -> hub.AgentInterface:
    """An AgentInterface declaration (spec 4.4.6).

    binding: "JSONRPC", "HTTP+JSON", "GRPC" or another transport's name. version: of the protocol, such as "0.3". url: where to listen and under
    which path, such as `http://127.0.0.1:8080/a2a` or `127.0.0.1:50051`; empty takes the server's default
    address and the root path; a path alone (`/a2a`) takes the default address.
    """
    return hub.AgentInterface(url=url, protocol_binding=binding, protocol_version=version, tenant=tenant)


@dataclass(frozen=True, slots=True)
class Mounted:
    """An interface that is being served: the declaration, where it listens, and under which path."""

    interface: hub.AgentInterface
    family: str
    address: ListenAddress
    path: str = ""

    @property
    def version(self) -> str:
        """The declared protocol version, as the dialect that serves it is called."""
        dialect = self.dialect
        if dialect is not None:
            return dialect.version
        return normalise(self.interface.protocol_version) or self.interface.protocol_version

    @property
    def dialect(self) -> Dialect | None:
        """The dialect that is served; None for a version nobody here knows."""
        return by_version(self.interface.protocol_version)


class _Wanted(NamedTuple):
    """What a reader wants of a card."""

    #: the only bindings to list, as `bindings.module_name` spells them; empty for all
    bindings: frozenset[str] = frozenset()
    #: the only version; empty for all in one document
    version: str = ""


_ALL = _Wanted()


class Advertisement:
    """The card as callers see it: a function of the base URL they used.

    card: everything but the interfaces. mounted: what is served. card_address: the listener that serves
    the card itself. public_url: base URL of the HTTP interfaces as the outside sees it, without the mount
    path. public_grpc: `host:port` of the gRPC interfaces as the outside sees them, or a URL; `https://` and port 443 mean
    TLS. secure: whether our own
    HTTP listeners speak TLS. grpc_urls: see `GrpcUrls`. grpc_secure: whether those have https in them.
    bindings, versions: those that the card lists; empty for all that are mounted. carries: whether the card is of an agent elsewhere, so that what only an older version says travels on with it
    to bridges further on; who is hosted here never sees nor shows that.
    """

    def __init__(
        self,
        card: hub.AgentCard,
        mounted: Sequence[Mounted],
        *,
        card_address: ListenAddress | None = None,
        public_url: str = "",
        public_grpc: str = "",
        secure: bool = False,
        grpc_urls: GrpcUrls = "both-in-0.x",
        grpc_secure: bool = False,
        bindings: Collection[str] = (),
        versions: Collection[str] = (),
        carries: bool = False,
    ) -> None:
        note_inexpressible(card)
        self._card = card
        self._bindings = frozenset(map(module_name, bindings))
        self._versions = frozenset(versions)
        self._carries = carries
        self._grpc_urls = grpc_urls
        self.mounted = tuple(mounted)
        self._card_address = card_address
        self._public_url = public_url.rstrip("/")
        scheme, named, rest = public_grpc.partition("://")
        self._public_grpc = rest if named else public_grpc
        secured = grpc_secure or scheme == "https" or self._public_grpc.endswith(":443")
        self._grpc_scheme = "https" if secured else "http"
        self._scheme = "https" if secure else "http"
        self._documents: dict[tuple[str, str, _Wanted], bytes] = {}

    def settle(self, mounted: Sequence[Mounted], card_address: ListenAddress | None) -> None:
        """Puts in the addresses that the system gave, once the listeners are open."""
        self.mounted = tuple(mounted)
        self._card_address = card_address
        self._documents.clear()

    def card(self, base_url: str = "") -> hub.AgentCard:
        """The card for a caller who reached the card's listener by `base_url` (scheme, host, mount prefix)."""
        return self._made(base_url, _ALL)

    def _made(self, base_url: str, wanted: _Wanted) -> hub.AgentCard:
        made = hub.AgentCard()
        made.CopyFrom(self._card if self._carries else without_residue(self._card))
        del made.supported_interfaces[:]
        made.supported_interfaces.extend(self._interfaces(base_url, wanted, http=self._grpc_urls == "http"))
        return made

    def document(self, base_url: str) -> bytes:
        """The card as JSON. Cards whose interfaces are all 1.0 hold no member of another version."""
        return self._remembered(base_url, WHOLE)

    def document_for_0_2(self, base_url: str) -> bytes:
        """The document where 0.2 looks for it: the same, but for what its readers refuse a card for."""
        return self._remembered(base_url, FOR_0_2)

    def at(self, path: str) -> Document:
        """The document to serve at one of `paths`."""
        return self.document_for_0_2 if path == OLD_WELL_KNOWN_PATH else self.document

    def variant_at(self, path: str) -> Variant:
        """The document to serve at one of `paths` to requests with a query or a version."""
        reader = FOR_0_2 if path == OLD_WELL_KNOWN_PATH else WHOLE

        def document(base_url: str, query: str, version: str) -> bytes:
            wanted = self._asked_for(query, version)
            old = wanted.version == "0.2.5"
            return self._remembered(base_url, FOR_0_2 if old else reader, wanted)

        return document

    def _asked_for(self, query: str, declared: str) -> _Wanted:
        """What a query and the version of a request name. Raises INVALID_PARAMS when the card has none of it."""
        given = parse_qsl(query)
        # A plus sign in a query is a space, and people will write one.
        texts = [value for name, value in given if name == "bindings"]
        bindings = {module_name(one) for text in texts for one in text.split(",") if one.strip()}
        all_listed = self._listed()
        listed = {module_name(one.interface.protocol_binding): one for one in all_listed}
        if bindings and bindings.isdisjoint(listed):
            kinds = ", ".join(dict.fromkeys(one.interface.protocol_binding for one in listed.values()))
            raise invalid_params("bindings", f"names none of the bindings of this card: {kinds}")
        versions = list(dict.fromkeys(one.version for one in all_listed))
        version = _newest_of(declared)
        for named in (value for name, value in given if name == "version" and value.strip()):
            version = _newest_of(named)
            if version not in versions:
                raise invalid_params(
                    "version", f"is none of the versions of this card: {', '.join(versions)}"
                )
        return _Wanted(frozenset(bindings & listed.keys()), version if version in versions else "")

    def _listed(self, wanted: _Wanted = _ALL) -> list[Mounted]:
        """What the card lists, and a reader wants."""
        return [
            one
            for one in self.mounted
            for name in (module_name(one.interface.protocol_binding),)
            if (not self._bindings or name in self._bindings)
            and (not self._versions or one.version in self._versions)
            and (not wanted.bindings or name in wanted.bindings)
            and (not wanted.version or one.version == wanted.version)
        ]

    def paths(self) -> tuple[str, ...]:
        """The well-known paths of the declared versions; with one of 0.x those of all of them."""
        dialects = [one.dialect for one in self.mounted]
        found = [path for dialect in dialects if dialect is not None for path in dialect.card.paths]
        if self._old():
            found = [*V1_0.card.paths, *found, OLD_WELL_KNOWN_PATH]
        return tuple(dict.fromkeys(found or V1_0.card.paths))

    def _remembered(self, base_url: str, reader: str, wanted: _Wanted = _ALL) -> bytes:
        known = self._documents.get((base_url, reader, wanted))
        if known is None:
            if len(self._documents) >= _REMEMBERED:
                self._documents.clear()
            tree = self._tree(base_url, wanted)
            known = dumps(without_mutual_tls(tree) if reader == FOR_0_2 else tree)
            self._documents[base_url, reader, wanted] = known
        return known

    def _tree(self, base_url: str, wanted: _Wanted) -> JsonObject:
        old = self._old(wanted)
        if wanted.version and old:
            tree = old[0].card.encode(without_residue(self._shown(base_url, wanted)))
            # A member of 1.0, where 0.x cards say what theirs cannot, such as two entries for one interface.
            tree.pop("supportedInterfaces", None)
            return tree
        card = self._made(base_url, wanted)
        if wanted.version:
            return V1_0.card.encode(expressible(without_residue(card)))
        if not old:
            return V1_0.card.encode(expressible(card))
        return dual(card, self._shown(base_url, wanted), old)

    def _old(self, wanted: _Wanted = _ALL) -> list[Dialect]:
        """The dialects of 0.x that are declared, newest first."""
        declared = [one.dialect for one in self._listed(wanted) if is_old(one.interface)]
        return [dialect for dialect in KNOWN if dialect in declared]

    def _shown(self, base_url: str, wanted: _Wanted) -> hub.AgentCard:
        """The card with the interfaces that its 0.x members are to name, the main one first."""
        made = hub.AgentCard()
        made.CopyFrom(self._card)
        del made.supported_interfaces[:]
        listed = places(self._interfaces(base_url, wanted, http=self._grpc_urls != "bare"))
        main = main_interface(listed)
        if main is not None:
            for one in listed:
                one.protocol_version = main.protocol_version  # which is what the card says of them all
            made.supported_interfaces.append(main)
            for one in listed:
                made.supported_interfaces.append(one)
                if self._grpc_urls == "both-in-0.x" and one.protocol_binding == GRPC.name:
                    bare = made.supported_interfaces.add()
                    bare.CopyFrom(one)
                    bare.url = one.url.partition("://")[2]
        return made

    def _interfaces(self, base_url: str, wanted: _Wanted, *, http: bool) -> list[hub.AgentInterface]:
        made = []
        for one in self._listed(wanted):
            added = hub.AgentInterface()
            added.CopyFrom(one.interface)
            added.protocol_version = one.version
            added.url = self._url(one, base_url.rstrip("/"))
            if http and one.family == "grpc":
                added.url = f"{self._grpc_scheme}://{added.url}"
            made.append(added)
        return made

    def _url(self, one: Mounted, base_url: str) -> str:
        if one.family != "http":
            # gRPC addresses have no scheme in a card; what another transport's have is its own affair.
            scheme, separator, _ = one.interface.url.partition("://")
            if one.family == "grpc" or not separator:
                return self._authority(one, base_url)
            return f"{scheme}://{self._authority(one, base_url)}{one.path}"
        path = one.path or ("" if one.interface.protocol_binding == HTTP_JSON.name else "/")
        if self._public_url:
            return self._public_url + path
        if base_url and one.address == self._card_address:
            return base_url + path
        return f"{self._scheme}://{self._authority(one, base_url)}{path}"

    def _authority(self, one: Mounted, base_url: str) -> str:
        if self._public_grpc and one.interface.protocol_binding == GRPC.name:
            return self._public_grpc
        host = one.address.host
        if self._public_url:
            host = _host(self._public_url) or host
        elif host in WILDCARDS:
            host = _host(base_url) or "127.0.0.1"
        return str(ListenAddress(host, one.address.port))


def _newest_of(text: str) -> str:
    """The version that a reader names, as its dialect is called; empty for none and for one that is not known.

    A header that came several times is joined by commas; the newest known counts.
    """
    named = {by_version(one.strip()) for one in text.split(",")}
    return next((dialect.version for dialect in KNOWN if dialect in named), "")


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # callers choose the Host header, and not every [...] is an address
        return ""
