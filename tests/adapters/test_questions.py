"""Questions of agents and their answers: one convention for all frameworks."""

from typing import Any

import pytest

from a2a_bridge.core.messages import parts_of
from a2a_bridge.ext import CallContext, hub
from a2a_bridge.hosting.executor import Run
from a2a_bridge.testing.each import each
from a2a_bridge_adapters.content import json_of
from a2a_bridge_adapters.questions import (
    DECISIONS,
    Approval,
    OpenCall,
    UnclearAnswerError,
    answers,
    ask,
    asked_ids,
    decisions_of,
)

TOOL = OpenCall("1", {"path": "x"}, "delete", approval=True)
OTHER = OpenCall("2", {"path": "y"}, "delete", approval=True)
QUESTION = OpenCall("3", "which colour?")


def read(*content: Any, calls: tuple[OpenCall, ...] = (TOOL,)) -> dict[str, Any]:
    return answers([part for one in content for part in parts_of(one)], calls)


@each(
    ("content", "found"),
    [
        ("yes", Approval(True)),
        (" OK! ", Approval(True)),
        ("No.", Approval(False)),
        ("", Approval(False)),
        ("rather not", Approval(False, "rather not")),
        ("yes, but not now", Approval(False, "yes, but not now")),
        ({"1": True}, Approval(True)),
        ({"1": False}, Approval(False)),
        ({"1": "approve"}, Approval(True)),
        ({"1": {"approved": False, "reason": "mine"}}, Approval(False, "mine")),
        ({"1": {"approved": True, "arguments": {"path": "z"}}}, Approval(True, "", {"path": "z"})),
    ],
)
def test_an_approval(content: Any, found: Approval) -> None:
    assert read(content) == {"1": found}


@each(
    ("content", "calls", "found"),
    [
        (["red"], (QUESTION,), {"3": "red"}),
        ([{"3": 7}], (QUESTION,), {"3": 7}),
        ([{"hue": 1}], (QUESTION,), {"3": {"hue": 1}}),
        ([[1, 2]], (QUESTION,), {"3": [1, 2]}),
        (["yes"], (TOOL, OTHER), {"1": Approval(True), "2": Approval(True)}),
        ([{"2": False}, "yes"], (TOOL, OTHER), {"1": Approval(True), "2": Approval(False)}),
        ([{"1": True}, {"3": "red"}], (TOOL, QUESTION), {"1": Approval(True), "3": "red"}),
    ],
)
def test_answers(content: list[Any], calls: tuple[OpenCall, ...], found: dict[str, Any]) -> None:
    assert read(*content, calls=calls) == found


@each(
    ("content", "calls", "text"),
    [
        ([{"1": True}], (TOOL, OTHER), "No answer for 2."),
        ([{"9": True}], (TOOL,), "No such call is open: 9."),
        ([[True]], (TOOL,), "object {callId: value}"),
        ([b"yes"], (TOOL,), "a text or data"),
        ([{"1": 1}], (TOOL,), "true, false, a text"),
        ([{"1": None}], (TOOL,), "true, false, a text"),
        ([{"1": {"approved": "yes"}}], (TOOL,), "true, false, a text"),
        ([{"1": {"approved": True, "arguments": [1]}}], (TOOL,), "true, false, a text"),
        ([], (TOOL,), "No answer for 1."),
    ],
)
def test_an_answer_that_is_none(content: list[Any], calls: tuple[OpenCall, ...], text: str) -> None:
    with pytest.raises(UnclearAnswerError) as caught:
        read(*content, calls=calls)
    assert text in str(caught.value)


CHANGED = {"1": {"approved": True, "arguments": {"path": "z"}}}
SAME = {"1": {"approved": True, "arguments": {"path": "x"}}}


@each("content", [True, False, "no", "why?", CHANGED, SAME])
@each("allowed", [{"approve"}, {"edit"}, {"reject"}, {"approve", "reject"}, {"edit", "reject"}, DECISIONS])
def test_only_allowed_decisions_are_answers(content: Any, allowed: frozenset[str]) -> None:
    """And the arguments of the call itself are no edit."""
    tool = OpenCall("1", {"path": "x"}, "delete", approval=True, decisions=frozenset(allowed))
    given = content if isinstance(content, (dict, str)) else {"1": content}
    decision = {str(True): "approve", str(CHANGED): "edit", str(SAME): "approve"}.get(str(content), "reject")
    if decision in allowed:
        found = read(given, calls=(tool,))["1"]
        assert found.approved == (decision != "reject")
        assert found.arguments == ({"path": "z"} if decision == "edit" else None)
        return
    with pytest.raises(UnclearAnswerError, match="delete"):
        read(given, calls=(tool,))


def test_decisions_of_an_option() -> None:
    assert decisions_of(["approve", "reject"]) == {"approve", "reject"}
    wrong: Any
    for wrong in ((), "approve", ["respond"]):
        with pytest.raises(ValueError, match="approve, edit, reject"):
            decisions_of(wrong)


def run(task: hub.Task | None = None) -> Run:
    message = hub.Message(message_id="m", role=hub.ROLE_USER)
    return Run(hub.SendMessageRequest(message=message), CallContext(), "t", "c", task)


def test_a_question_for_people_and_for_programs() -> None:
    status = ask(run(), [TOOL, QUESTION], "No answer for 1.").status
    text, data = status.message.parts
    assert status.state == hub.TASK_STATE_INPUT_REQUIRED
    assert text.text.splitlines() == [
        "No answer for 1.",
        '[1] The agent asks to call delete with {"path":"x"}. Answer yes or no.',
        "[3] which colour?",
    ]
    assert json_of(data) == {
        "calls": [
            {"callId": "1", "name": "delete", "arguments": {"path": "x"}, "approval": True},
            {"callId": "3", "question": "which colour?"},
        ]
    }


def test_only_a_question_before_the_message_is_answered_by_it() -> None:
    asks = ask(run(), [TOOL]).status.message
    note = run().reply("a note")
    user = hub.Message(message_id="m", role=hub.ROLE_USER)
    earlier = hub.Message(message_id="e", role=hub.ROLE_USER)
    for history, found in (
        ([earlier, asks, note, user], {"1"}),
        ([earlier, user, asks], set()),
        ([asks, earlier, user], set()),
        ([earlier, note, user], set()),
    ):
        assert asked_ids(run(hub.Task(history=history))) == found
    assert asked_ids(run()) == set()


def test_a_question_that_a_caller_wrote_has_no_effect_beyond_its_ids() -> None:
    forged = hub.Message(message_id="f", role=hub.ROLE_AGENT)
    for calls in (7, [7], [{"callId": 1}], [{}]):
        del forged.parts[:]
        forged.parts.extend(parts_of({"calls": calls}))
        assert asked_ids(run(hub.Task(history=[forged]))) <= {"1.0", "1"}


def test_two_answers_for_one_call_are_none() -> None:
    with pytest.raises(UnclearAnswerError, match="Two answers for 1"):
        read({"1": False}, {"1": True})
