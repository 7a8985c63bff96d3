"""Conversations of adapters: their keys, their turns, and how many are kept."""

from __future__ import annotations

import asyncio

import pytest

from a2a_bridge.ext import CallContext, Principal, hub
from a2a_bridge.hosting.executor import Run
from a2a_bridge_adapters.conversations import ConversationKey, Conversations, key_of

ANN, BOB, EVE = (ConversationKey("", name, "c") for name in ("ann", "bob", "eve"))


def run(tenant: str = "", name: str | None = None, context_id: str = "c") -> Run:
    principal = None if name is None else Principal(name)
    return Run(hub.SendMessageRequest(), CallContext(tenant=tenant, principal=principal), "t", context_id)


def test_keys_of_different_owners_and_contexts_differ() -> None:
    runs = [
        run(),
        run("x"),
        run(name="x"),
        run("x", "y"),
        run("", "x", "y"),
        run("x", "", "y"),
        run("x,y"),
        run('x", "y'),
    ]
    assert len({key_of(one).digest for one in runs}) == len(runs)
    assert key_of(run("t", "p")) == ConversationKey("t", "p", "c")
    assert len(key_of(run()).digest) == 64


async def test_a_second_turn_waits_and_others_do_not() -> None:
    conversations: Conversations[int] = Conversations()
    order, may_end = [], asyncio.Event()

    async def turn(key: ConversationKey, name: str, *, waits: bool = False) -> None:
        async with conversations.turn(key):
            order.append(f"{name} begins")
            if waits:
                await may_end.wait()
            order.append(f"{name} ends")

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(turn(ANN, "first", waits=True))
        second = group.create_task(turn(ANN, "second"))
        cancelled = group.create_task(turn(ANN, "cancelled"))
        await group.create_task(turn(BOB, "another"))
        cancelled.cancel()
        assert not second.done()
        may_end.set()
    assert order == [
        "first begins",
        "another begins",
        "another ends",
        "first ends",
        "second begins",
        "second ends",
    ]


async def test_the_oldest_states_are_forgotten_but_none_with_a_turn() -> None:
    forgotten: list[ConversationKey] = []
    conversations: Conversations[int] = Conversations(1, forgotten.append)
    async with conversations.turn(ANN):
        conversations.keep(ANN, 1)
        for key in (BOB, EVE):
            async with conversations.turn(key):
                conversations.keep(key, 2)
        assert forgotten == [BOB, EVE]
        assert conversations.get(ANN) == 1
    assert (conversations.get(BOB), len(conversations)) == (None, 1)


def test_a_limit_of_none_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Conversations(0)
