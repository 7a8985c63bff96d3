"""The names of conversations, without a front around them."""

from itertools import product

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.fronts.conversations import Conversations, context_of, new_name
from a2a_bridge_adapters.fronts.turn import Answer


def test_a_context_has_one_front_one_owner_and_one_name() -> None:
    texts = ("", "a", "b", '["a"', "a\x00b", "\ud800")
    made = [context_of(*one) for one in product(("MCP", "OPENAI"), texts, texts)]
    assert len(set(made)) == len(made)
    # The same after a restart.
    assert context_of("MCP", "ann", "x") == "70a67067-c09e-5384-8ca0-78b4ae191f32"
    assert new_name() != new_name()


def test_the_id_that_the_agent_gives_counts() -> None:
    known = Conversations("MCP")
    first = known.named("ann", "x")
    first.note(Answer(hub.TASK_STATE_INPUT_REQUIRED, (), task_id="t", context_id="theirs", shown={"a": 1}))
    again = known.named("ann", "x")
    assert (again.context_id, again.waiting, again.shown) == ("theirs", "t", {"a": 1})
    assert known.named("bob", "x").context_id != "theirs"
    again.note(Answer(hub.TASK_STATE_COMPLETED, (), task_id="t", shown={"a": 1}))
    assert (first.context_id, first.waiting, first.shown) == ("theirs", "", {})


def test_the_conversation_used_longest_ago_is_forgotten() -> None:
    known = Conversations("MCP", most=2)
    for name in ("x", "y"):
        known.named("ann", name).context_id = name
    known.named("ann", "x")
    known.named("ann", "z")
    assert known.named("ann", "x").context_id == "x"
    assert known.named("ann", "y").context_id == context_of("MCP", "ann", "y")
