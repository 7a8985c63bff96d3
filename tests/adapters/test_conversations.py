"""Conversations of adapters: their keys, their turns, and how many are kept."""

import pytest

from a2a_bridge.ext import CallContext, Principal, hub
from a2a_bridge.hosting.executor import Run
from a2a_bridge_adapters.conversations import ConversationKey, Conversations

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
    assert len({one.conversation.digest for one in runs}) == len(runs)
    assert run("t", "p").conversation == ConversationKey("t", "p", "c")
    assert len(run().conversation.digest) == 64


def test_the_oldest_states_are_forgotten_but_none_with_a_turn() -> None:
    forgotten: list[ConversationKey] = []
    conversations: Conversations[int] = Conversations(1, forgotten.append)
    with conversations.turn(ANN):
        conversations.keep(ANN, 1)
        for key in (BOB, EVE):
            with conversations.turn(key):
                conversations.keep(key, 2)
        assert forgotten == [BOB, EVE]
        assert conversations.get(ANN) == 1
    assert (conversations.get(BOB), len(conversations)) == (None, 1)


def test_a_limit_of_none_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Conversations(0)
