"""Posting a notification: how often, for how long, and what counts as taken. Over a real socket."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.bindings import DialOptions, http_post
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
async def test_what_is_tried_again(
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


async def test_nobody_there() -> None:
    async with receiving() as receiver:
        gone = made(receiver)
    async with webhook() as hook:
        assert not await hook.send(gone)


async def test_a_silent_receiver_is_given_up() -> None:
    async with receiving() as receiver, webhook(timeout=0.2) as hook:
        receiver.silent = True
        assert not await hook.send(made(receiver))
