"""Finding and caching cards. The network is a table, the clock a number."""

from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any

import pytest

from a2a_bridge.bindings.binding import Fetched
from a2a_bridge.cards import Resolver, resolve
from a2a_bridge.cards.resolve import card_locations, locate
from a2a_bridge.codec import dumps
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each

WELL_KNOWN = "/.well-known/agent-card.json"
OLD_WELL_KNOWN = "/.well-known/agent.json"
HERE = f"http://a.example{WELL_KNOWN}"
OLD = f"http://a.example{OLD_WELL_KNOWN}"


def card(name: str = "a") -> bytes:
    made = hub.AgentCard(name=name)
    made.supported_interfaces.add(url="http://a.example/", protocol_binding="JSONRPC", protocol_version="1.0")
    return dumps(V1_0.card.encode(made))


class Web:
    """The documents by URL; everything else is 404. Records the requests with their headers."""

    def __init__(self, pages: Mapping[str, Fetched | bytes]) -> None:
        self.pages = dict(pages)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.now = 1000.0

    async def fetch(self, url: str, headers: Mapping[str, str]) -> Fetched:
        self.asked.append((url, dict(headers)))
        page = self.pages.get(url, Fetched(404, {}, b""))
        return Fetched(200, {}, page) if isinstance(page, bytes) else page

    def resolver(self, **options: Any) -> Resolver:
        return Resolver(self.fetch, clock=lambda: self.now, **options)


def page(body: bytes | None = None, **headers: str) -> Fetched:
    return Fetched(200, {name.replace("_", "-"): value for name, value in headers.items()}, body or card())


async def failure(pages: Mapping[str, Fetched | bytes], url: str = "http://a.example") -> A2AError:
    with pytest.raises(A2AError) as caught:
        await resolve(url, Web(pages).fetch)
    assert caught.value.blame is Blame.PEER
    return caught.value


@each(
    ("url", "locations"),
    [
        ("http://a.example", [HERE, OLD]),
        ("http://a.example/", [HERE, OLD]),
        ("http://a.example#top", [HERE, OLD]),
        (
            "http://a.example/x/y/",
            [f"http://a.example/x/y{WELL_KNOWN}", f"http://a.example/x/y{OLD_WELL_KNOWN}", HERE, OLD],
        ),
        (
            "https://[::1]:1/x",
            [
                f"https://[::1]:1{at}"
                for at in (f"/x{WELL_KNOWN}", f"/x{OLD_WELL_KNOWN}", WELL_KNOWN, OLD_WELL_KNOWN)
            ],
        ),
        (HERE, [HERE]),
        ("http://a.example/my-card.json", ["http://a.example/my-card.json"]),
        ("http://a.example/card?id=5", ["http://a.example/card?id=5"]),
    ],
)
def test_where_a_card_may_be(url: str, locations: list[str]) -> None:
    assert card_locations(url) == locations


async def test_a_base_is_tried_before_its_origin() -> None:
    web = Web({f"http://a.example/x{WELL_KNOWN}": card("x"), HERE: card("origin")})
    assert (await resolve("http://a.example/x", web.fetch)).name == "x"
    assert (await resolve("http://a.example/y", web.fetch)).name == "origin"
    assert [url for url, _ in web.asked] == [
        f"http://a.example/x{WELL_KNOWN}",
        f"http://a.example/y{WELL_KNOWN}",
        f"http://a.example/y{OLD_WELL_KNOWN}",
        HERE,
    ]
    assert set(web.asked[0][1]) == {"accept"}, "nobody's credentials"


@each("status", [301, 302, 304, 307, 404, 410, 500, 503])
async def test_documents_that_are_no_card_are_skipped(status: int) -> None:
    error = await failure({HERE: Fetched(status, {"location": "http://evil.example"}, b"")})
    assert error.reason is Reason.INVALID_AGENT_RESPONSE
    assert f"{HERE} answered {status}" in error.message


@pytest.mark.parametrize("front", [b"<!doctype html>", b"[]", b'{"name": "not a card"}'])
async def test_a_front_page_at_any_path_does_not_hide_the_card_of_the_origin(front: bytes) -> None:
    web = Web({f"http://a.example/app{WELL_KNOWN}": front, HERE: card("origin")})
    assert (await resolve("http://a.example/app", web.fetch)).name == "origin"


async def test_redirects_are_not_followed() -> None:
    web = Web({HERE: Fetched(302, {"location": "http://b.example/card.json"}, b"")})
    web.pages["http://b.example/card.json"] = card()
    with pytest.raises(A2AError):
        await resolve("http://a.example", web.fetch)
    assert [url for url, _ in web.asked] == [HERE, OLD]


@pytest.mark.parametrize(
    ("status", "reason"), [(401, Reason.UNAUTHENTICATED), (403, Reason.PERMISSION_DENIED)]
)
async def test_guarded_cards(status: int, reason: Reason) -> None:
    error = await failure({HERE: Fetched(status, {}, b"")})
    assert error.reason is reason
    assert f"{HERE} answered {status}; {OLD} answered 404" in error.message


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 500])
async def test_a_rejection_below_a_path_does_not_hide_the_card_of_the_origin(status: int) -> None:
    below = f"http://a.example/x{WELL_KNOWN}"
    rejected = Fetched(status, {"www-authenticate": "Bearer"}, b"who are you?")
    web = Web({below: rejected, HERE: card("origin")})
    assert (await resolve("http://a.example/x", web.fetch)).name == "origin"
    web = Web({below: rejected, f"http://a.example/x{OLD_WELL_KNOWN}": card("old")})
    assert (await resolve("http://a.example/x", web.fetch)).name == "old"
    error = await failure({below: rejected}, "http://a.example/x")
    assert f"{below} answered {status}; " in error.message
    assert f"{OLD} answered 404" in error.message


@each(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"5",
        b"null",
        b'"x"',
        b"{}",
        b'{"name": 5}',
        b'{"name": "a"}',
        b'{"supportedInterfaces": []}',
        b'{"supportedInterfaces": [5]}',
        b"\xff\xfe",
        b"[" * 5000,
    ],
)
async def test_a_document_that_is_no_card(body: bytes) -> None:
    error = await failure({HERE: body})
    assert error.reason is Reason.INVALID_AGENT_RESPONSE
    assert len(error.message) < 400


@pytest.mark.parametrize("location", [HERE, OLD])
async def test_a_card_with_a_wrong_member_names_it_and_what_helps(location: str) -> None:
    wrong = {"name": "a", "url": "http://a.example/", "provider": "me"}
    error = await failure({location: dumps(wrong)})
    assert "provider: expected an object, got a string" in error.message
    assert "--card FILE" in getattr(error, "hint", "")


async def test_the_mark_of_a_byte_order_is_ignored() -> None:
    checked: list[bytes] = []

    async def check(body: bytes, _where: str) -> bytes:
        checked.append(body)
        return body

    web = Web({HERE: BOM_UTF8 + card()})
    assert (await web.resolver().resolve("http://a.example")).name == "a"
    assert (await web.resolver(check=check).resolve("http://a.example")).name == "a"
    assert checked == [card()]


async def test_an_absent_card_has_no_member_to_correct() -> None:
    assert getattr(await failure({}), "hint", "") == ""


async def test_no_listener() -> None:
    async def fetch(url: str, headers: Mapping[str, str]) -> Fetched:
        raise A2AError(Reason.UNAVAILABLE)

    with pytest.raises(A2AError) as caught:
        await resolve("http://a.example", fetch)
    assert caught.value.reason is Reason.UNAVAILABLE


async def test_fresh_cards_are_not_asked_for_again() -> None:
    web = Web({HERE: page(cache_control="public, MAX-AGE=60")})
    resolver = web.resolver()
    first = await resolver.resolve("http://a.example")
    web.now += 59.9
    assert await resolver.resolve("http://a.example/") is first
    assert len(web.asked) == 1
    web.now += 0.2
    await resolver.resolve("http://a.example")
    assert len(web.asked) == 2


async def test_stale_cards_are_asked_for_with_their_validators() -> None:
    date = "Sat, 01 Aug 2026 00:00:00 GMT"
    web = Web({HERE: page(etag='"1"', last_modified=date, cache_control="max-age=10")})
    resolver = web.resolver()
    first = await resolver.resolve("http://a.example")
    web.now += 11
    web.pages[HERE] = Fetched(304, {"cache-control": "max-age=30"}, b"")
    assert await resolver.resolve("http://a.example") is first
    assert web.asked[1][1] | {"accept": ""} == {
        "accept": "",
        "if-none-match": '"1"',
        "if-modified-since": date,
    }
    web.now += 29
    assert await resolver.resolve("http://a.example") is first
    assert len(web.asked) == 2, "the answer made it fresh again"
    web.now += 2
    web.pages[HERE] = page(card("new"), etag='"2"')
    assert (await resolver.resolve("http://a.example")).name == "new"


@pytest.mark.parametrize(
    "control", ["", "no-cache, max-age=60", "private", "max-age=", "x-max-age=60", "max-age=-1"]
)
async def test_headers_that_make_no_card_fresh(control: str) -> None:
    web = Web({HERE: page(etag='"1"', cache_control=control)})
    resolver = web.resolver()
    await resolver.resolve("http://a.example")
    await resolver.resolve("http://a.example")
    assert [headers.get("if-none-match") for _, headers in web.asked] == [None, '"1"']


async def test_no_store_is_respected() -> None:
    web = Web({HERE: page(etag='"1"', cache_control="max-age=60")})
    resolver = web.resolver()
    await resolver.resolve("http://a.example")
    web.now += 61
    web.pages[HERE] = page(card("secret"), etag='"2"', cache_control="No-Store, max-age=60")
    assert (await resolver.resolve("http://a.example")).name == "secret"
    assert not resolver._entries
    await resolver.resolve("http://a.example")
    assert [headers.get("if-none-match") for _, headers in web.asked] == [None, '"1"', None]


async def test_a_bounded_number_is_remembered() -> None:
    hosts = [f"http://{number}.example" for number in range(3)]
    web = Web({host + WELL_KNOWN: page(cache_control="max-age=60") for host in hosts})
    resolver = web.resolver(limit=2)
    for host in hosts:
        await resolver.resolve(host)
    assert list(resolver._entries) == [host + WELL_KNOWN for host in hosts[1:]]
    await resolver.resolve(hosts[2])
    assert len(web.asked) == 3


async def test_renewing_one_card_forgets_no_other() -> None:
    hosts = ["http://1.example", "http://2.example"]
    resolver = Web({host + WELL_KNOWN: page() for host in hosts}).resolver(limit=2)
    for host in (*hosts, hosts[1]):
        await resolver.resolve(host)
    assert set(resolver._entries) == {host + WELL_KNOWN for host in hosts}


async def test_of_an_unchanged_document_what_is_covered_now_is_read() -> None:
    covered = card("all of it")

    async def check(_raw: bytes, _location: str) -> bytes:
        return covered

    web = Web({HERE: page(etag='"1"')})
    resolver = web.resolver(check=check)
    assert (await resolver.resolve("http://a.example")).name == "all of it"
    covered = card("a part of it")  # the key that covers all of it has expired
    web.pages[HERE] = Fetched(304, {}, b"")
    assert (await resolver.resolve("http://a.example")).name == "a part of it"


async def test_a_failure_keeps_the_cached_card() -> None:
    web = Web({HERE: page(etag='"1"')})
    resolver = web.resolver()
    first = await resolver.resolve("http://a.example")
    web.pages[HERE] = Fetched(503, {}, b"")
    with pytest.raises(A2AError):
        await resolver.resolve("http://a.example")
    web.pages[HERE] = Fetched(304, {}, b"")
    assert await resolver.resolve("http://a.example") is first


async def test_a_card_where_0_2_had_it_is_found_after_the_newer_place() -> None:
    old = {
        "protocolVersion": "0.2.5",
        "name": "old",
        "url": "http://a.example/",
        "preferredTransport": "GRPC",
    }
    web = Web({OLD: dumps(old)})
    found = await resolve("http://a.example", web.fetch)
    assert (found.name, found.supported_interfaces[0].protocol_version) == ("old", "0.2.5")
    assert [url for url, _ in web.asked] == [HERE, OLD]
    both = Web({HERE: card("new"), OLD: dumps(old)})
    assert (await resolve("http://a.example", both.fetch)).name == "new"
    assert [url for url, _ in both.asked] == [HERE]


async def test_an_invalid_newer_card_does_not_hide_the_older_one() -> None:
    old = {"protocolVersion": "0.2.5", "name": "old", "url": "http://a.example/"}
    web = Web({HERE: b"<html>", OLD: dumps(old)})
    assert (await resolve("http://a.example", web.fetch)).name == "old"
    error = await failure({HERE: b"<html>"})
    assert "not JSON" in error.message
    assert f"{OLD} answered 404" in error.message


async def test_whether_the_card_is_that_of_the_path_or_of_the_origin() -> None:
    web = Web({HERE: card("root"), f"http://a.example/x{WELL_KNOWN}": card("x")})
    own = await locate("http://a.example/x", web.fetch, exact=True)
    assert (own.card.name, own.location, own.fallback) == ("x", f"http://a.example/x{WELL_KNOWN}", False)
    other = await locate("http://a.example/y", web.fetch)
    assert (other.card.name, other.location, other.fallback) == ("root", HERE, True)
    for url in ("http://a.example/", HERE):
        assert not (await locate(url, web.fetch, exact=True)).fallback
    with pytest.raises(A2AError) as caught:
        await locate("http://a.example/y", web.fetch, exact=True)
    assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE
    assert HERE not in caught.value.message
