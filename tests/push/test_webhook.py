"""Posting a notification: attempts, time limits, and acknowledgements. Over a real socket."""

import asyncio
import ipaddress
import logging
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, Fetched, Post, http_post
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import Notification, PushOptions, Registrations, Webhook, WebhookResolver
from a2a_bridge.push.ssrf_policy import Allowed, SsrfPolicy, is_public
from a2a_bridge.push.webhook import is_own
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE
from tests.push.delivery_scene import Receiver, receiving

SECRET = "s3cret"  # noqa: S105


@asynccontextmanager
async def webhook(**members: Any) -> AsyncIterator[Webhook]:
    async with http_post(DialOptions()) as post:
        yield Webhook(post, **{"pause": 0.001} | members)


def made(receiver: Receiver) -> Notification:
    return Notification(f"{receiver.url}/{SECRET}", {"Content-Type": "application/json", "X-A": "b"}, b"{}")


@pytest.mark.parametrize(
    ("statuses", "taken", "attempts"),
    [
        ([200], True, 1),
        ([204], True, 1),
        ([500, 429, 202], True, 3),
        ([500, 503, 500, 200], False, 3),
        ([400, 200], False, 1),
        ([408, 410, 200], False, 2),
        ([302, 200], False, 1),
    ],
)
async def test_retried_failures(
    statuses: list[int], taken: bool, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "a2a_bridge.push"):
        async with receiving() as receiver, webhook() as hook:
            receiver.statuses = statuses
            assert await hook.send(made(receiver)) is taken
            assert (len(receiver.posted), receiver.posted[-1].path) == (attempts, f"/hook/{SECRET}")
            assert (receiver.posted[-1].headers["x-a"], receiver.posted[-1].body) == ("b", b"{}")
    assert bool(caplog.records) is not taken
    assert SECRET not in caplog.text


async def test_no_listener() -> None:
    async with receiving() as receiver:
        gone = made(receiver)
    async with webhook() as hook:
        assert not await hook.send(gone)


async def test_a_silent_receiver_is_given_up() -> None:
    async with receiving() as receiver, webhook(timeout=0.2) as hook:
        receiver.silent = True
        assert not await hook.send(made(receiver))


@pytest.mark.parametrize(
    ("error", "attempts", "said"),
    [
        (
            A2AError(Reason.UNAVAILABLE, f"'{SECRET}' is no URL", metadata={"phase": "connect"}),
            3,
            "no connection",
        ),
        (A2AError(Reason.UNAVAILABLE, SECRET), 3, "the connection broke"),
        (A2AError(Reason.DEADLINE_EXCEEDED, SECRET), 3, "no answer in time"),
        (A2AError(Reason.PERMISSION_DENIED, SECRET), 1, "not allowed"),
    ],
    ids=repr,
)
async def test_errors_have_our_texts_and_rejections_are_final(
    error: A2AError, attempts: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    posted: list[str] = []

    async def post(url: str, *_: Any) -> Fetched:
        posted.append(url)
        raise error

    with caplog.at_level(logging.DEBUG, "a2a_bridge.push"):
        given = Notification(f"http://hook.example/{SECRET}", {}, b"{}")
        assert not await Webhook(post, pause=0.001).send(given)
    assert len(posted) == attempts
    assert said in caplog.text
    assert "hook.example" in caplog.text
    assert SECRET not in caplog.text


async def test_a_url_that_only_some_can_read_stays_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with webhook() as hook:
        given = Notification(f"http://h\u00f6st.invalid/{SECRET}?token={SECRET}", {}, b"{}")
        assert not await hook.send(given)
    assert caplog.records
    assert SECRET not in caplog.text


# --- The policy: which addresses, ports and hosts notifications may go to. No network ---

CLOSED = [
    # of IPv4: this machine, private, carrier and test networks, broadcast, unspecified
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.9", "192.0.0.170",
    "192.0.2.1", "192.88.99.1", "192.88.99.254", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7",
    "203.0.113.7", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    # of IPv6
    "::", "::1", "fe80::1", "fe80::1%eth0", "2606:4700::1%1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "5f00::1",
    "2001:db8::1", "3fff::1", "3ffe::1", "4000::1",
    # IPv4 in IPv6, of any kind: some of these lead to 127.0.0.1 or 10.0.0.1
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::7f00:1",
    "2002:7f00:1::", "2002:808:808::1", "2001::7f00:1", "2001:0:a00:1::1", "2001:10::1", "2001:20::1",
]  # fmt: skip
OPEN = [
    "1.1.1.1", "8.8.8.8", "93.184.215.14", "100.63.255.255", "100.128.0.0", "168.63.129.15", "168.63.129.17", "172.15.255.255", "172.32.0.0",
    "192.0.1.1", "192.88.98.1", "198.17.255.255", "223.255.255.255",
    "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450:4001::1", "2003::1", "3ffd::1",
]  # fmt: skip


@each("text", CLOSED)
def test_addresses_that_are_not_global_are_rejected(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
    assert SsrfPolicy().rejection("hook.example", 443, [text])


@each("text", OPEN)
def test_global_addresses_are_allowed(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))
    assert SsrfPolicy().rejection("hook.example", 443, [text]) == ""


def test_python_closes_nothing_that_is_open_here() -> None:
    """The tables of Python grow with each version; addresses that only they reject are worth a look."""
    for text in OPEN:
        assert ipaddress.ip_address(text).is_global
        assert not ipaddress.ip_address(text).is_multicast


def test_one_closed_address_closes_a_name() -> None:
    assert SsrfPolicy().rejection("hook.example", 443, ["1.1.1.1", "8.8.8.8"]) == ""
    assert SsrfPolicy().rejection("hook.example", 443, ["1.1.1.1", "127.0.0.1"])
    assert SsrfPolicy().rejection("hook.example", 443, ["1.1.1.1", "no address"])


@pytest.mark.parametrize(("port", "fine"), [(80, True), (443, True), (8080, True), (8443, True), (22, False), (6379, False), (25, False)])  # fmt: skip
def test_ports(port: int, fine: bool) -> None:
    assert (SsrfPolicy().rejection("hook.example", port, ["1.1.1.1"]) == "") is fine
    assert (SsrfPolicy().rejection("hook.example", port, []) == "") is fine
    assert SsrfPolicy(ports=frozenset({port})).rejection("hook.example", port, ["1.1.1.1"]) == ""


def test_schemes() -> None:
    assert SsrfPolicy().scheme("https")
    assert SsrfPolicy().scheme("HTTP")
    assert not SsrfPolicy(schemes=frozenset({"https"})).scheme("http")
    assert not SsrfPolicy().scheme("ftp")


@each(
    ("allowed", "host", "port", "address", "fine"),
    [
        ("127.0.0.1", "127.0.0.1", 5000, "127.0.0.1", True),
        ("127.0.0.1", "hook.example", 5000, "127.0.0.1", True),
        ("127.0.0.1", "hook.example", 5000, "127.0.0.2", False),
        ("127.0.0.1", "hook.example", 5000, "1.1.1.1", False),
        ("127.0.0.1", "hook.example", 443, "::ffff:127.0.0.1", False),
        ("127.0.0.1:5000", "127.0.0.1", 5000, "127.0.0.1", True),
        ("127.0.0.1:5000", "127.0.0.1", 5001, "127.0.0.1", False),
        ("10.0.0.0/8", "hook.example", 5000, "10.1.2.3", True),
        ("10.1.2.3/8", "hook.example", 5000, "10.9.9.9", True),
        ("10.0.0.0/8", "hook.example", 5000, "11.0.0.1", False),
        ("::1", "::1", 5000, "::1", True),
        ("[::1]:5000", "::1", 5000, "::1", True),
        ("[::1]:5000", "::1", 443, "::1", False),
        ("fd00::/8", "x", 1, "fd12::1", True),
        ("localhost", "localhost", 5000, "127.0.0.1", True),
        ("LocalHost.", "localhost", 5000, "::1", True),
        ("localhost", "LOCALHOST.", 5000, "127.0.0.1", True),
        ("localhost:5000", "localhost", 5001, "127.0.0.1", False),
        ("localhost", "not-localhost", 443, "127.0.0.1", False),
        ("hooks.internal", "evil.hooks.internal", 443, "10.0.0.1", False),
    ],
)
def test_allowed_targets(allowed: str, host: str, port: int, address: str, fine: bool) -> None:
    guard = SsrfPolicy([Allowed.parse(allowed)])
    assert (guard.rejection(host, port, [address]) == "") is fine


@each(
    "text", ["", " ", "http://localhost", "localhost/x", "a@b", "localhost:x", "[::1", "host?x", "host:70000"]
)
def test_invalid_allow_entries(text: str) -> None:
    with pytest.raises(ValueError, match="is no host, address or network"):
        Allowed.parse(text)


# --- The resolver: names with several or changing addresses. Over real sockets if it connects ---
class Names:
    """The addresses of names: one list after the other; the last one is repeated."""

    def __init__(self, *meanings: Sequence[str]) -> None:
        self._meanings = list(meanings)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        found = self._meanings[min(self.asked, len(self._meanings)) - 1]
        if not found:
            raise OSError("no such host")
        return found


def resolver(*meanings: Sequence[str], allow: Sequence[str] = ()) -> WebhookResolver:
    return WebhookResolver(PushOptions(allow=tuple(allow)).policy(), lookup=Names(*meanings))


async def test_a_silent_name_server_holds_a_registration_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    timeout = asyncio.timeout

    async def silent(_host: str, _port: int) -> Sequence[str]:
        return await asyncio.get_running_loop().create_future()

    def at_once(seconds: float) -> asyncio.Timeout:
        limits.append(seconds)
        return timeout(0)

    monkeypatch.setattr("asyncio.timeout", at_once)
    config = hub.TaskPushNotificationConfig(url="https://agents.example/hook")
    # The name may be known later, see rule 2.
    assert await WebhookResolver(lookup=silent).check(config) is None
    assert limits == [3.0]


async def rejected(url: str, *meanings: Sequence[str], allow: Sequence[str] = ()) -> str:
    """The reason why a URL cannot be registered; empty if it can."""
    keeper = resolver(*meanings, allow=allow)
    error = await keeper.check(hub.TaskPushNotificationConfig(task_id="t", id="p", url=url))
    if error is None:
        return ""
    assert error.reason is Reason.INVALID_PARAMS
    assert [one.field for one in error.violations] == ["url"]
    return error.violations[0].description


@each(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.0.0.1:8080/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fe80::1%25eth0]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://10.0.0.1/",
        "http://0.0.0.0/",
        "https://1.1.1.1:22/",
    ],
)
async def test_literal_addresses_are_rejected_when_registered(url: str) -> None:
    assert "not allowed" in await rejected(url)


async def test_names_are_rejected_when_registered() -> None:
    url = "https://hook.example/"
    assert await rejected(url, ["1.1.1.1", "2606:4700::1111"]) == ""
    assert await rejected(url, ["1.1.1.1", "10.0.0.1"])
    assert await rejected(url, ["127.0.0.1"])
    assert await rejected("https://hook.example:9200/", ["1.1.1.1"])
    assert await rejected(url, ["127.0.0.1"], allow=["127.0.0.1"]) == ""
    assert await rejected("http://hook.example:9200/", ["127.0.0.1"], allow=["hook.example"]) == ""


async def test_an_unresolvable_name_may_be_registered() -> None:
    assert await rejected("https://hook.example/", []) == ""
    assert await rejected("https://hook.example:22/", [])


@pytest.mark.parametrize("text", ["2130706433", "127.1", "0x7f000001", "0177.0.0.1", "localhost"])
async def test_other_variants_of_this_machine_are_rejected(text: str) -> None:
    error = await WebhookResolver().check(hub.TaskPushNotificationConfig(url=f"http://{text}/"))
    assert error is not None
    async with http_post(DialOptions(), WebhookResolver().resolve) as post:
        with pytest.raises(A2AError):
            await post(f"http://{text}/", {}, b"")


async def test_our_own_public_addresses_are_rejected() -> None:
    assert is_own("127.0.0.1")
    assert not is_own("1.1.1.1")
    keeper = WebhookResolver(lookup=Names(["1.1.1.1"]), own=lambda text: text == "1.1.1.1")
    assert await keeper.check(hub.TaskPushNotificationConfig(url="https://hook.example/")) is not None
    with pytest.raises(A2AError) as caught:
        await keeper.resolve("hook.example", 443)
    assert caught.value.reason is Reason.PERMISSION_DENIED


@asynccontextmanager
async def posting(keeper: WebhookResolver) -> AsyncIterator[Post]:
    async with http_post(DialOptions(timeout=PATIENCE), keeper.resolve) as post:
        yield post


async def test_a_name_that_changes_its_meaning_is_not_connected_to() -> None:
    """DNS rebinding: public when it is registered, and this machine when we connect."""
    async with receiving() as receiver:
        port = receiver.url.rpartition(":")[2].partition("/")[0]
        names = Names(["1.1.1.1"], ["127.0.0.1"])
        keeper = WebhookResolver(PushOptions(ports=frozenset({int(port)})).policy(), lookup=names)
        url = f"http://hook.example:{port}/hook"
        assert await keeper.check(hub.TaskPushNotificationConfig(url=url)) is None
        async with posting(keeper) as post:
            with pytest.raises(A2AError) as caught:
                await post(url, {}, b"{}")
        assert caught.value.reason is Reason.PERMISSION_DENIED
        assert names.asked == 2  # once each: no name is resolved again after the check
        assert receiver.posted == []


async def test_the_checked_address_is_the_connected_one() -> None:
    """Only our resolver knows this name, so the connection used its answer; and it is asked once."""
    async with receiving() as receiver:
        port = receiver.url.rpartition(":")[2].partition("/")[0]
        names = Names(["127.0.0.1"], ["127.0.0.2"])
        keeper = WebhookResolver(PushOptions(allow=("127.0.0.1",)).policy(), lookup=names)
        async with posting(keeper) as post:
            reply = await post(f"http://hook.example:{port}/hook", {}, b"{}")
        assert reply.status == 204
        assert receiver.posted[0].headers["host"] == f"hook.example:{port}"
        assert names.asked == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "[::1]"])
async def test_literal_addresses_are_not_connected_to(host: str) -> None:
    async with receiving() as receiver:
        port = receiver.url.rpartition(":")[2].partition("/")[0]
        async with posting(WebhookResolver(PushOptions(ports=frozenset({int(port)})).policy())) as post:
            with pytest.raises(A2AError):
                await post(f"http://{host}:{port}/hook", {}, b"{}")
        assert receiver.posted == []


async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver, receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with posting(resolver(allow=["127.0.0.1"])) as post:
            await post(receiver.url, {}, b"{}")
        assert len(receiver.posted) == 1
        assert proxy.posted == []


async def test_redirects_are_not_followed() -> None:
    async with receiving() as receiver:
        receiver.statuses = [302]
        async with posting(resolver(allow=["127.0.0.1"])) as post:
            assert (await post(receiver.url, {}, b"{}")).status == 302
        assert len(receiver.posted) == 1


@pytest.mark.parametrize(("text", "kept"), [("", True), ("fine", True), ("x" * 3_000_000, False)])
async def test_connections_are_used_again_unless_the_answer_is_long(text: str, kept: bool) -> None:
    async with receiving() as receiver:
        receiver.text = text
        async with posting(resolver(allow=["127.0.0.1"])) as post:
            for _ in range(3):
                reply = await post(receiver.url, {}, b"{}")
                assert (reply.status // 100, reply.body) == (2, b"")
        assert (receiver.connections == 1) is kept


async def test_https_only() -> None:
    keeper = WebhookResolver(PushOptions(schemes=frozenset({"https"})).policy(), lookup=Names(["1.1.1.1"]))
    assert await keeper.check(hub.TaskPushNotificationConfig(url="https://hook.example/")) is None
    assert await keeper.check(hub.TaskPushNotificationConfig(url="http://hook.example/")) is not None


@each(
    ("members", "field"),
    [
        ({"url": "https://hook.example/" + "x" * 2048}, "url"),
        ({"id": "x" * 513}, "id"),
        ({"token": "x" * 4097}, "token"),
        ({"authentication": {"scheme": "x" * 65}}, "authentication.scheme"),
        ({"authentication": {"scheme": "x", "credentials": "x" * 8193}}, "authentication.credentials"),
        ({"url": "https://user:pass@hook.example/"}, "url"),
        ({"url": "https://hook.example/\r\nX: y"}, "url"),
        ({"url": "https://hook.example\\x/hook"}, "url"),
        ({"url": "https://hook.example/hook\\x"}, "url"),
        ({"token": "a\r\nX: y"}, "token"),
    ],
)
async def test_values_too_long_or_invalid_in_a_header_are_rejected(
    members: dict[str, object], field: str
) -> None:
    given = {"task_id": "t", "url": "https://hook.example/"} | members
    error = await resolver(["1.1.1.1"]).check(hub.TaskPushNotificationConfig(**given))  # type: ignore[arg-type]
    assert error is not None
    assert [one.field for one in error.violations] == [field]


# Content of older callers beside their configs is kept within bounds, and only if there is any.


ALICE, BOB = Scope("", "alice"), Scope("", "bob")


def config(config_id: str = "p", url: str = "http://hook/", **members: Any) -> hub.TaskPushNotificationConfig:
    return hub.TaskPushNotificationConfig(task_id="t", id=config_id, url=url, **members)


def test_side_content_belongs_to_a_config() -> None:
    known = Registrations()
    known.note(ALICE, config("old"), "said")
    known.note(ALICE, config("new", "http://other/"), "")
    assert known.of(ALICE, config("old")) == "said"
    assert known.of(ALICE, config("new", "http://other/")) == ""
    assert (known.of(BOB, config("old")), len(known)) == ("", 1)
    known.forget(ALICE, "t", "old")
    known.forget(ALICE, "t", "old")
    assert (known.of(ALICE, config("old")), len(known)) == ("", 0)


def test_a_receiver_is_known_before_its_config_has_an_id() -> None:
    known = Registrations()
    known.note_receiver(ALICE, config("", token="x"), "said")  # noqa: S106
    assert known.of(ALICE, config("later", token="x")) == "said"  # noqa: S106
    assert known.of(ALICE, config("later", token="y")) == ""  # noqa: S106


def test_the_last_side_content_counts() -> None:
    known = Registrations()
    known.note(ALICE, config(), "said")
    known.note(ALICE, config(), "")
    assert known.of(ALICE, config()) == ""
    known.note_receiver(ALICE, config(""), "of another one at the same receiver")
    known.note(ALICE, config(), "")
    assert (known.of(ALICE, config()), len(known)) == ("", 0)


def test_the_memory_is_bounded() -> None:
    known = Registrations(most=3)
    for number in range(1, 10):
        known.note(ALICE, config(str(number), f"http://hook/{number}"), "x" * number)
        known.note_receiver(ALICE, config("", f"http://other/{number}"), "x" * number)
    assert (len(known), known.of(ALICE, config("9", "http://hook/9"))) == (6, "x" * 9)
    assert known.of(ALICE, config("1", "http://hook/1")) == ""


def test_long_words_take_no_more_room_than_short_ones() -> None:
    known = Registrations()
    config = hub.TaskPushNotificationConfig(task_id="t", id="c", url="http://a/" + "x" * 1_000_000, token="y")  # noqa: S106
    tracemalloc.start()
    try:
        for number in range(5):
            config.token = str(number)
            known.note(Scope(), config, "said")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert known.of(Scope(), config) == "said"
    assert kept < 1_500_000
