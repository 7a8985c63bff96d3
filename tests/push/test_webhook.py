"""Posting a notification: attempts, time limits, and acknowledgements. Over a real socket."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, Fetched, http_post
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.push import Notification, Webhook
from tests.push.receiver import Receiver, receiving

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
            assert len(receiver.posted) == attempts
            assert receiver.posted[-1].path == f"/hook/{SECRET}"
            assert receiver.posted[-1].headers["x-a"] == "b"
            assert receiver.posted[-1].body == b"{}"
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
