"""Documents of an HTTP host: validators, conditional requests, and the paths that clients make out of a card."""

from __future__ import annotations

import json

import pytest

from a2a_bridge_transports._http import mounts
from tests.transports.http_scene import MESSAGE, Scripted, ask, hosting, request, wire

SEND = json.dumps({"message": MESSAGE})


async def test_a_document() -> None:
    async with hosting(Scripted()) as host:
        host.publish("/.well-known/agent-card.json", lambda base: json.dumps({"url": base}).encode())
        path = "/.well-known/agent-card.json"
        first = await ask(host, request("GET", path, version="", host="here:1"))
        assert first.status == 200
        assert first.json() == {"url": "http://here:1"}
        assert first.headers["content-type"] == "application/json"
        assert "max-age=" in first.headers["cache-control"]
        assert first.headers["access-control-allow-origin"] == "*"
        tag = first.headers["etag"]
        for asked in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            again = await ask(host, request("GET", path, host="here:1", If_None_Match=asked))
            assert (again.status, again.headers["etag"]) == (304, tag)
        other = await ask(host, request("GET", path, host="there", If_None_Match=tag))
        assert other.json() == {"url": "http://there"}


async def test_head_and_options_of_a_document() -> None:
    async with hosting(Scripted()) as host, wire(host) as connection:
        host.publish("/card.json", lambda _: b"{}")
        connection.send(request("HEAD", "/card.json"))
        head = await connection.answer(bodyless=True)
        assert (head.status, head.headers["content-length"]) == (200, "2")
        connection.send(
            request("OPTIONS", "/card.json", Origin="http://o", Access_Control_Request_Method="GET")
        )
        preflight = await connection.answer()
        assert preflight.status == 204
        assert "content-length" not in preflight.headers
        assert preflight.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"


async def test_when_a_document_was_modified(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000_000_000.9]
    monkeypatch.setattr(mounts.time, "time", lambda: clock[0])
    shown = [b"{}"]

    async with hosting(Scripted()) as host:
        host.publish("/card.json", lambda _: shown[0])

        async def get(**headers: str) -> tuple[int, str, bytes]:
            answer = await ask(host, request("GET", "/card.json", **headers))
            return answer.status, answer.headers["last-modified"], answer.body

        first, later = "Sun, 09 Sep 2001 01:46:40 GMT", "Sun, 09 Sep 2001 01:46:45 GMT"
        clock[0] += 5
        assert await get() == (200, first, b"{}")
        assert await get(If_Modified_Since=first) == (304, first, b"")
        assert await get(If_Modified_Since="Sun, 09 Sep 2001 01:46:39 GMT") == (200, first, b"{}")
        assert await get(If_Modified_Since="yesterday") == (200, first, b"{}")
        assert await get(If_Modified_Since=later, If_None_Match='"other"') == (200, first, b"{}")
        shown[0] = b"[]"
        assert await get(If_Modified_Since=first) == (200, later, b"[]")
        assert await get(If_Modified_Since=later) == (304, later, b"")


@pytest.mark.parametrize("path", ["", "/a2a"])
async def test_a_url_that_was_joined_naively(path: str) -> None:
    async with hosting(Scripted(), path=path) as host:
        for raw in (
            request("POST", f"{path}//message:send", SEND),
            request("GET", f"{path}//tasks/7"),
            request("POST", f"/{path}/message:send", SEND),
        ):
            assert (await ask(host, raw)).status == 200
        assert (await ask(host, request("GET", f"{path}/tasks//pushNotificationConfigs"))).status == 404
        host.publish("/card.json", lambda _: b"{}")
        assert (await ask(host, request("GET", "//card.json"))).body == b"{}"


async def test_a_document_varies_by_the_version_that_its_reader_names() -> None:
    def variant(_base: str, query: str, version: str) -> bytes:
        return json.dumps({"query": query, "version": version}).encode()

    async with hosting(Scripted()) as host:
        host.publish("/card.json", lambda _: b'{"all": 1}', variant)
        first = await ask(host, request("GET", "/card.json", version=""))
        assert (first.json(), first.headers["vary"]) == ({"all": 1}, "A2A-Version")
        asked = await ask(host, request("GET", "/card.json", version="1.0"))
        assert (asked.json(), asked.headers["vary"]) == (
            {"query": "", "version": "1.0"},
            "A2A-Version",
        )
        assert asked.headers["etag"] != first.headers["etag"]
        # Other readers' documents are no change of this one.
        assert asked.headers["last-modified"] == first.headers["last-modified"]
        queried = await ask(host, request("GET", "/card.json?x=1", version=""))
        assert queried.json() == {"query": "x=1", "version": ""}
