"""The resolver: names with several or changing addresses. Over real sockets if it connects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from a2a_bridge.bindings.binding import DialOptions, Post, http_post
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions, WebhookResolver
from a2a_bridge.push.webhook import is_own
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE
from tests.push.receiver import receiving


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
