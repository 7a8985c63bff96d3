"""Routing that all HTTP hosts share, with documents and probes, and the sites of several agents on one host.
It opens no socket.

Rules:
1. Paths are compared as sent, percent-encoded; a path is mounted once.
2. Exact paths come first, then the longest tree.
3. Documents answer GET, HEAD and OPTIONS with validators, so that clients can revalidate them.
4. A site has mounts of its own, below a path or at a host name. It sees requests as if it were alone: paths
   without its prefix, and base URLs with it. The owner of the host starts and drains it; a site waits for the
   start, so that its card has real addresses. Sites come and go while the host runs; requests in progress
   keep the site that they began with. An application of a site starts and ends with its agent, and so it has
   no lifespan.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import formatdate, parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from a2a_bridge.bindings.asgi import Application
from a2a_bridge.bindings.binding import Document, HostOptions, ListenAddress, Receive, Render, Variant
from a2a_bridge.cards.page import CSP
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http import exchange
from a2a_bridge_transports._http.application import Answering
from a2a_bridge_transports._http.lifespan import Mounted
from a2a_bridge_transports._http.parameters import read_version

#: first segments of HTTP+JSON paths and of documents, which are no tenants
_SEGMENTS = frozenset({"tasks", "v1", "card", "extendedAgentCard", ".well-known"})

_log = logging.getLogger("a2a_bridge.http")

#: all methods, for paths whose application looks at them
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
#: seconds at the end of a drain for the errors of running calls of applications
LAST_ANSWERS = 1.0
#: seconds a document may be cached
MAX_AGE = 60
#: base URLs whose entity tag is remembered for one document
_REMEMBERED = 64
#: the requests that the page at the root answers
_READS, _ROOTS = frozenset({"GET", "HEAD"}), frozenset({"", "/"})
_PAGE: exchange.Headers = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", CSP),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Vary", "Accept"),
)
_PROBE: exchange.Headers = (("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"))


def canonical(path: str) -> str:
    """A mount path as requests have it: "" for the root, else with one leading and no trailing slash."""
    trimmed = path.strip("/")
    return "/" + quote(trimmed, safe="/:@!$&'()*+,;=%~") if trimmed else ""


def without_empty_start(path: str) -> str:
    """A request path with one leading slash: clients that join URL and path naively send two."""
    return f"/{path.lstrip('/')}" if path.startswith("//") else path


class Mounts:
    """The paths of one host."""

    def __init__(self, options: HostOptions) -> None:
        self.options = options
        #: True while shutting down: the readiness probe fails and connections are not kept
        self.draining = False
        #: the applications, in the order in which they start
        self.applications: list[Mounted] = []
        #: the requests that an application answers
        self.answering: set[Answering] = set()
        #: functions that end running calls of applications
        self.endings: set[Callable[[], None]] = set()
        self._exact: dict[str, Mapping[str, exchange.Handler]] = {}
        self._beside: set[str] = set()
        self._trees: list[tuple[str, exchange.Handler]] = []
        #: POST handlers of paths without another handler
        self._aliases: dict[str, exchange.Handler] = {}
        #: handlers of whole host names, in lower case without a port; see `Site`
        self.names: dict[str, exchange.Handler] = {}
        #: path → handler of POSTs to one further segment
        self._below: dict[str, exchange.Handler] = {}
        #: the page at the root for people; None: none
        self._front: Document | None = None
        self._probes: dict[str, Mapping[str, exchange.Handler]] = {
            "/livez": {"GET": self._live, "HEAD": self._live},
            "/readyz": {"GET": self._ready, "HEAD": self._ready},
        }

    @property
    def address(self) -> ListenAddress:
        """Unknown where the socket belongs to an ASGI server."""
        return ListenAddress("", 0)

    def mount(self, path: str, methods: Mapping[str, exchange.Handler]) -> None:
        """Serves one path, with and without a trailing slash. Raises ValueError if it is taken."""
        exact = canonical(path)
        if exact in self._exact and exact not in self._beside:
            raise ValueError(f"something is mounted at {exact or '/'} already")
        self._beside.discard(exact)
        self._exact[exact] = self._exact[exact + "/"] = methods

    def mount_beside(self, path: str, methods: Mapping[str, exchange.Handler]) -> None:
        """Serves a path that is derived from another one. If several mounts claim it, or one mounts it
        explicitly, no claim counts: one service must not answer for another.
        """
        exact = canonical(path)
        if exact not in self._exact:
            self._beside.add(exact)
            self._exact[exact] = self._exact[exact + "/"] = methods
        elif exact in self._beside:
            self._exact[exact] = self._exact[exact + "/"] = {"GET": _reject_path}

    def mount_alias(self, path: str, handler: exchange.Handler) -> None:
        """Answers POSTs to a path that has no other handler; the first claim of a path wins."""
        self._aliases.setdefault(canonical(path), handler)

    def mount_below(self, path: str, handler: exchange.Handler) -> None:
        """Answers POSTs to any one segment below a path that has no other handler."""
        self._below.setdefault(canonical(path), handler)

    def mount_tree(self, path: str, handler: exchange.Handler) -> None:
        """Serves all below a path that has no other handler. Raises ValueError if the tree is taken."""
        prefix = canonical(path)
        if any(prefix == present for present, _ in self._trees):
            raise ValueError(f"something is mounted below {prefix or '/'} already")
        self._trees.append((prefix, handler))
        self._trees.sort(key=lambda tree: -len(tree[0]))

    def mount_application(
        self,
        path: str,
        application: Application,
        reject: exchange.Reject = exchange.reject,
        *,
        at: Sequence[str] = (),
        ending: Callable[[], None] | None = None,
    ) -> None:
        """Gives requests below a path to an application of ASGI, which starts and ends with the host. reject:
        the form of errors in its place. at: its paths below that path, with `/*` at the end for all below;
        empty: all. ending: ends its running calls with errors of its own; called shortly before the end of a
        drain. Raises ValueError if a path is taken.
        """
        mounted = Mounted(canonical(path), application, reject)
        for one in at or ("/*",):
            whole = one.removesuffix("/*")
            if whole != one:
                self.mount_tree(path + whole, mounted.handle)
            else:
                self.mount(path + one, dict.fromkeys(_METHODS, mounted.handle))
        self.applications.append(mounted)
        if ending is not None:
            self.endings.add(ending)

    async def start_applications(self) -> None:
        """Raises RuntimeError if one does not start."""
        for number, mounted in enumerate(self.applications):
            try:
                await mounted.start()
            except BaseException:
                for earlier in reversed(self.applications[:number]):
                    await earlier.stop()
                raise

    async def stop_applications(self) -> None:
        """Ends the applications in reverse order."""
        for mounted in reversed(self.applications):
            await mounted.stop()

    def retire(self) -> None:
        """Begins to drain: the readiness probe fails, and event streams of applications end."""
        self.draining = True
        for answering in self.answered():
            answering.retire()

    def answered(self) -> list[Answering]:
        """The requests that an application of these mounts answers."""
        return list(self.answering)

    def end_calls_after(self, grace: float) -> list[asyncio.TimerHandle]:
        """Has applications end their running calls shortly before `grace` seconds are over. Returns timers to
        be cancelled if all have ended before.
        """
        late = grace - min(LAST_ANSWERS, grace / 2)
        return [asyncio.get_running_loop().call_later(late, ending) for ending in self.endings]

    def unmount_tree(self, path: str) -> None:
        """Stops serving below a path. Requests in progress keep their handler."""
        prefix = canonical(path)
        self._trees = [tree for tree in self._trees if tree[0] != prefix]

    def publish(self, path: str, document: Document, variant: Variant | None = None) -> None:
        """Serves a JSON document at an absolute path. variant: the document for requests with a query or
        A2A-Version. Raises ValueError if the path is taken.
        """
        served = _Published(document, variant, self.options.cors)
        self.mount(path, {"GET": served.get, "HEAD": served.get, "OPTIONS": served.options})

    def show(self, path: str, render: Render) -> None:
        """Serves a page at an absolute path. Raises ValueError if it is taken."""

        async def shown(request: exchange.Request) -> exchange.Reply:
            try:
                page = await render(request.headers.get("Accept", ""))
            except Exception:  # noqa: BLE001  the application's function
                _log.exception("the page at %s failed", request.path)
                return exchange.reject(internal_error())
            headers = (("Content-Type", page.content_type), ("Cache-Control", "no-store"))
            return exchange.Reply(page.status, headers, page.body)

        self.mount(path, {"GET": shown, "HEAD": shown})

    def front(self, page: Document) -> None:
        """Serves a page at the root to people, beside what is mounted there."""
        self._front = page

    def receive(self, path: str, receive: Receive) -> None:
        """Passes posts below an absolute path to a function. Raises ValueError if it is taken."""
        below = len(canonical(path))

        async def received(request: exchange.Request) -> exchange.Reply:
            if request.method != "POST":
                return exchange.reject(exchange.not_allowed(["POST"]))
            try:
                status = await receive(request.path[below:], request.parameters(), request.read)
            except A2AError as error:
                return exchange.reject(error)
            except exchange.ClientLeftError:
                raise
            except Exception:  # noqa: BLE001  the application's function
                _log.exception("what was posted to %s could not be received", request.path[:below])
                return exchange.reject(internal_error())
            return exchange.Reply(status, ())

        self.mount_tree(path, received)

    def find(self, method: str, path: str, *, plain: bool = False) -> exchange.Handler:
        """The handler of a request; if there is none, a handler that rejects it."""
        if method in _READS and path in _ROOTS and self._front is not None and not plain:
            return _front(self._front, self.find(method, path, plain=True))
        methods = self._exact.get(path)
        if methods is None and method == "POST" and (posted := self._find_post(path)) is not None:
            return posted
        if methods is None:
            for prefix, handler in self._trees:
                if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/"):
                    methods = self._probes.get(path)
                    if methods is None:
                        return handler
                    break
            else:
                methods = self._probes.get(path)
        if methods is None:
            return _reject_path
        found = methods.get(method)
        if found is not None:
            return found
        allowed = sorted({*methods, "OPTIONS"})
        return _allow(allowed) if method == "OPTIONS" else _reject(allowed)

    def find_handler(self, request: exchange.Request) -> exchange.Handler:
        """The handler of a request, with regard to its host name."""
        host = request.headers.get(exchange.HOST, "").lower()
        name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
        return self.names.get(name) or self.find(request.method, request.path)

    def _find_post(self, path: str) -> exchange.Handler | None:
        """The handler of a POST to a path that is not mounted itself."""
        if path in self._probes:
            return None
        trimmed = path.rstrip("/")
        found = self._aliases.get(trimmed)
        if found is None:
            prefix, _, segment = trimmed.rpartition("/")
            # All HTTP+JSON paths with one segment that take POSTs contain a colon.
            if segment and segment not in _SEGMENTS and ":" not in unquote(segment):
                found = self._below.get(prefix)
        return found

    async def _live(self, _request: exchange.Request) -> exchange.Reply:
        return exchange.Reply(200, _PROBE, b"ok\n")

    async def _ready(self, request: exchange.Request) -> exchange.Reply:
        if self.draining:
            return exchange.Reply(503, _PROBE, b"draining\n")
        figures = self._figures() if "verbose" in parse_qs(request.query, keep_blank_values=True) else ""
        rejection = self.options.rejection() if self.options.rejection is not None else None
        if rejection is not None:
            return exchange.Reply(
                503, _PROBE + exchange.error_headers(rejection), f"{rejection.message}\n{figures}".encode()
            )
        return exchange.Reply(200, _PROBE, f"ok\n{figures}".encode())

    def _figures(self) -> str:
        status = self.options.status() if self.options.status is not None else {}
        return "".join(f"{name}: {value}\n" for name, value in status.items())


async def _reject_path(request: exchange.Request) -> exchange.Reply:
    return exchange.reject_logged(request, exchange.not_found())


def _allow(allowed: list[str]) -> exchange.Handler:
    async def answer(_request: exchange.Request) -> exchange.Answer:
        return exchange.Reply(204, (("Allow", ", ".join(allowed)),))

    return answer


def _reject(allowed: list[str]) -> exchange.Handler:
    async def answer(request: exchange.Request) -> exchange.Answer:
        return exchange.reject_logged(request, exchange.not_allowed(allowed))

    return answer


class _Published:
    """One document, rendered for each request, because it depends on the base URL that the client uses."""

    def __init__(self, document: Document, variant: Variant | None, cors: str) -> None:
        self._document = document
        self._variant = variant
        self._vary: exchange.Headers = (("Vary", exchange.VERSION),) if variant is not None else ()
        self._cors: exchange.Headers = (
            (
                ("Access-Control-Allow-Origin", cors),
                ("Access-Control-Expose-Headers", "ETag, Last-Modified"),
            )
            if cors
            else ()
        )
        #: base URL → entity tag of the document last served there
        self._tags: dict[str, str] = {}
        #: when the document last changed for any base URL, in whole seconds since the epoch
        self._modified = int(time.time())

    async def get(self, request: exchange.Request) -> exchange.Reply:
        base_url = request.base_url()
        try:
            version = read_version(request.headers, "")
            if self._variant is not None and (request.query or version):
                body = self._variant(base_url, request.query, version)
                key = f"{base_url}?{request.query}#{version}"
            else:
                body = self._document(base_url)
                key = base_url
        except A2AError as error:
            return exchange.reject(error)
        except Exception:  # noqa: BLE001  the application's function
            _log.exception("the document at %s failed", request.path)
            return exchange.reject(internal_error())
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        # Variants need separate tags, or each would look like a change of the other.
        self._note(key, tag)
        headers: exchange.Headers = (
            ("ETag", tag),
            ("Last-Modified", formatdate(self._modified, usegmt=True)),
            ("Cache-Control", f"public, max-age={MAX_AGE}"),
            *self._vary,
            *self._cors,
        )
        if self._is_current(request.headers, tag):
            return exchange.Reply(304, headers)
        return exchange.Reply(200, exchange.JSON + headers, body)

    def _note(self, base_url: str, tag: str) -> None:
        """Notes the time of a change. Callers choose the Host header, so few base URLs are kept."""
        known = self._tags.get(base_url)
        if known == tag:
            return
        if known is not None:
            self._modified = int(time.time())
        if len(self._tags) >= _REMEMBERED:
            self._tags.clear()
        self._tags[base_url] = tag

    def _is_current(self, headers: Mapping[str, str], tag: str) -> bool:
        """True if the caller has this document (RFC 9110, 13.1): If-None-Match outweighs the date."""
        tags = headers.get("If-None-Match")
        if tags is not None:
            known = [part.strip().removeprefix("W/") for part in tags.split(",")]
            return tag in known or "*" in known
        since = headers.get("If-Modified-Since")
        try:
            return since is not None and parsedate_to_datetime(since).timestamp() >= self._modified
        except (ValueError, OverflowError):
            return False  # not a date: ignored

    async def options(self, _request: exchange.Request) -> exchange.Reply:
        if not self._cors:
            return exchange.Reply(204, (("Allow", "GET, HEAD, OPTIONS"),))
        preflight: exchange.Headers = (
            ("Allow", "GET, HEAD, OPTIONS"),
            ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
            ("Access-Control-Allow-Headers", "*"),
            ("Access-Control-Max-Age", "86400"),
        )
        return exchange.Reply(204, self._cors + preflight)


def _front(page: Document, otherwise: exchange.Handler) -> exchange.Handler:
    """The page at the root. otherwise: the handler for requests that want no page."""

    async def answer(request: exchange.Request) -> exchange.Answer:
        accepted = [one.partition(";")[0].strip() for one in request.headers.get("Accept", "").split(",")]
        if "text/html" not in accepted:
            return await otherwise(request)
        return exchange.Reply(200, _PAGE, page(request.base_url()))

    return answer


class Site(Mounts):
    """One agent on a shared host; implements `bindings.ApplicationHost`.

    prefix: its path. names: host names at which it is served without the prefix, in lower case. started:
    waits until the host listens. at_root: it is served without the prefix at every name. It is served from
    `open` on.
    """

    def __init__(
        self,
        host: Mounts,
        options: HostOptions,
        prefix: str,
        names: tuple[str, ...],
        started: Callable[[], Awaitable[None]],
        *,
        at_root: bool = False,
    ) -> None:
        super().__init__(options)
        self.prefix = canonical(prefix)
        #: see `bindings.ApplicationHost`; the card of a site follows the base URL of each request
        self.cards: Callable[[str], Mapping[str, hub.AgentCard]] | None = None
        self._host = host
        self._site_names = names
        self._started = started
        #: False until the agent is mounted
        self._is_open = False
        self._at_root = at_root

    @property
    def address(self) -> ListenAddress:
        return self._host.address

    @property
    def trailers(self) -> bool | None:
        """Whether gRPC is possible; None for a host that is no ASGI application."""
        return getattr(self._host, "trailers", None)

    def mount_application(
        self,
        path: str,
        application: Application,
        reject: exchange.Reject = exchange.reject,
        *,
        at: Sequence[str] = (),
        ending: Callable[[], None] | None = None,
    ) -> None:
        super().mount_application(path, application, reject, at=at, ending=ending)
        self._host.endings |= self.endings

    def answered(self) -> list[Answering]:
        own = {id(one.application) for one in self.applications}
        return [one for one in self._host.answering if id(one.application) in own]

    async def start(self) -> None:
        """Waits for the start of the host. Everything is mounted by then."""
        await self._started()
        self._is_open = True

    async def drain(self, grace: float) -> None:
        """Answers further requests as UNAVAILABLE. The host waits for its requests, but for those of
        applications, which end with the agent.
        """
        self.retire()
        self._is_open = False
        end = asyncio.get_running_loop().time() + grace
        await self._wait_answered(end)
        for ending in self.endings:
            ending()
        await self._wait_answered(end + LAST_ANSWERS)

    async def _wait_answered(self, end: float) -> None:
        """Waits until `end` for the answers of applications."""
        while self.answered() and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  a set has no event
            await asyncio.sleep(0.01)

    def open(self) -> None:
        """Adds the site to its host. Raises ValueError for a path or a name that is taken."""
        taken = [name for name in self._site_names if name in self._host.names]
        if taken:
            raise ValueError(f"the host name {taken[0]} belongs to another agent")
        self._host.mount_tree(self.prefix, self._at_path)
        if self._at_root:
            self._host.mount_tree("", self._at_name)
        for name in self._site_names:
            self._host.names[name] = self._at_name

    def close(self) -> None:
        """Removes the site from its host."""
        self._host.endings -= self.endings
        self._host.unmount_tree(self.prefix)
        if self._at_root:
            self._host.unmount_tree("")
        for name in self._site_names:
            self._host.names.pop(name, None)

    async def _at_path(self, request: exchange.Request) -> exchange.Answer:
        path = request.path[len(self.prefix) :] or "/"
        return await self._answer(_BelowRequest(request, path, self.prefix))

    async def _at_name(self, request: exchange.Request) -> exchange.Answer:
        if f"{request.path}/".startswith(f"{self.prefix}/"):
            return await self._at_path(request)
        return await self._answer(request)

    async def _answer(self, request: exchange.Request) -> exchange.Answer:
        if not self._is_open and not request.path.endswith(("/livez", "/readyz")):
            error = A2AError(Reason.UNAVAILABLE, "the agent is not available", blame=Blame.SELF)
            return exchange.reject_logged(request, error)
        return await self.find(request.method, request.path)(request)


class _BelowRequest:
    """A request as a site below a path sees it; implements Request."""

    __slots__ = ("_prefix", "_request", "headers", "method", "path", "peer", "query")

    def __init__(self, request: exchange.Request, path: str, prefix: str) -> None:
        self._request = request
        self._prefix = prefix
        self.path = path
        self.method = request.method
        self.headers: Any = request.headers
        self.query = request.query
        self.peer = request.peer

    @property
    def stopping(self) -> bool:
        return self._request.stopping

    async def read(self) -> bytes:
        return await self._request.read()

    def parameters(self) -> Mapping[str, str]:
        return self._request.parameters()

    def certificate(self) -> bytes | None:
        return self._request.certificate()

    def base_url(self) -> str:
        return self._request.base_url() + self._prefix
