"""Questions of an agent to its caller, and the answers: one convention for all frameworks.

A task with open calls waits in INPUT_REQUIRED. Its status message has a text for people, and a data part for
programs: `{"calls": [call, …]}`. An approval is `{"callId": …, "name": …, "arguments": …, "approval": true}`,
a question `{"callId": …, "question": …}`, and a tool whose result is asked for has a name and no approval.

An answer is a message to that task:
1. A data part `{callId: value}` answers single calls.
2. A text, such as yes or no, answers all calls that no data part answers.
3. An approval takes true or false, a text, or `{"approved": …, "reason": …, "arguments": …}`. A text that is
   no yes denies, and is the reason.
   Other arguments than those of the call are for frameworks that can change them.
   A call may allow some of these decisions only: an answer with another one is none.
4. An answer that does not answer all open calls changes nothing: the question is asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from a2a_bridge.hosting.executor import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.content import json_of, json_text

#: the member of the data part that lists the open calls
CALLS = "calls"
_YES = frozenset({"yes", "y", "ok", "okay", "approve", "approved", "allow", "confirm", "true"})
_NO = frozenset({"", "no", "n", "deny", "denied", "reject", "rejected", "cancel", "false"})

#: what a caller may decide about a call that needs an approval: as it is, with other arguments, not at all
DECISIONS = frozenset({"approve", "edit", "reject"})
#: why a decision is none, by the decision
_NOT_ALLOWED = {
    "approve": "{} is not called with the arguments of the agent. Give others, or answer no.",
    "edit": "{} takes no other arguments. Answer yes or no.",
    "reject": "{} cannot be denied. Answer yes.",
}

#: the reason for calls that were open when their conversation went on without an answer
ABANDONED = "The user did not answer and went on."
#: the result of an approved call whose turn ended before its result was known
MAY_HAVE_RUN = "The user approved the call. It may have run: its result is not known."
#: the result of a call that the user denied without a reason
DENIED = "The user denied the call."
NOT_OPEN = "The question of this task is no longer open: its conversation went on, or was forgotten."


class UnclearAnswerError(ValueError):
    """A message does not answer the open calls. The text is for the caller."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that waits for the caller: a tool that needs an approval, or a question.

    call_id: unique in the conversation. value: the arguments of the tool, or the question: JSON.
    """

    call_id: str
    value: Any
    #: the name of the tool; empty for a question
    name: str = ""
    #: True if the answer is yes or no
    approval: bool = False
    #: those of DECISIONS that the caller may take
    decisions: frozenset[str] = DECISIONS
    #: a text of the tool for the people who decide
    hint: str = ""

    @property
    def text(self) -> str:
        """The call for people."""
        if self.approval:
            asks = f"The agent asks to call {self.name} with {_text(self.value)}. Answer yes or no."
            return f"{self.hint} {asks}" if self.hint else asks
        if self.name:
            return f"The agent asks for the result of {self.name} with {_text(self.value)}."
        return _text(self.value)

    @property
    def data(self) -> dict[str, Any]:
        """The call for programs."""
        if self.name:
            told = {"callId": self.call_id, "name": self.name, "arguments": self.value}
            return {**told, "approval": True} if self.approval else told
        return {"callId": self.call_id, "question": self.value}


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer to a call that needs an approval.

    reason: of a denial; may be empty. arguments: of the call instead of its own; None for its own.
    """

    approved: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None


def decisions_of(names: Collection[str]) -> frozenset[str]:
    """The decisions of an option. Raises ValueError for another one, or for none."""
    if isinstance(names, str) or not names or not DECISIONS.issuperset(names):
        raise ValueError(
            f"allowed_decisions is a list of some of {', '.join(sorted(DECISIONS))}, not {names!r}"
        )
    return frozenset(names)


def interrupted(value: Any) -> Any:
    """The result of a call that the caller has answered, for a turn that ends before the framework gives one.

    value: an Approval, or the result itself.
    """
    if not isinstance(value, Approval):
        return value
    return MAY_HAVE_RUN if value.approved else value.reason or DENIED


def ask(run: Run, calls: Sequence[OpenCall], problem: str = "") -> hub.TaskStatusUpdateEvent:
    """The status of a task with open calls. problem: why an answer was none."""
    lines = [problem] if problem else []
    lines += [call.text if len(calls) == 1 else f"[{call.call_id}] {call.text}" for call in calls]
    return run.status(hub.TASK_STATE_INPUT_REQUIRED, "\n".join(lines), {CALLS: [call.data for call in calls]})


def asked_ids(run: Run) -> frozenset[str]:
    """The ids of the calls in the newest question before the message of this run; empty if there is none, or
    if it was answered.

    A message that was sent before the question does not answer it.
    """
    if run.task is None:
        return frozenset()
    history = list(run.task.history)
    places = [place for place, one in enumerate(history) if one.message_id == run.message.message_id]
    if places and run.message.message_id:
        history = history[: places[-1]]
    for message in reversed(history):
        if message.role != hub.ROLE_AGENT:
            break
        for part in message.parts:
            told = json_of(part) if part.HasField("data") else None
            if isinstance(told, dict) and isinstance(told.get(CALLS), list):
                return frozenset(
                    str(one["callId"]) for one in told[CALLS] if isinstance(one, dict) and "callId" in one
                )
    return frozenset()


def answers(parts: Sequence[hub.Part], calls: Sequence[OpenCall]) -> dict[str, Any]:
    """The value for each call by its id: an Approval, or JSON. Raises UnclearAnswerError."""
    found: dict[str, Any] = {}
    texts: list[str] = []
    known = {call.call_id: call for call in calls}
    only = calls[0] if len(calls) == 1 and not calls[0].approval else None
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                told = json_of(part)
                named = isinstance(told, dict) and known.keys() & told.keys()
                if not named and only is not None:
                    found[only.call_id] = told
                elif not isinstance(told, dict):
                    raise UnclearAnswerError("A data part of an answer is an object {callId: value}.")
                elif unknown := sorted(told.keys() - known.keys()):
                    raise UnclearAnswerError(f"No such call is open: {', '.join(unknown)[:200]}.")
                elif twice := sorted(found.keys() & told.keys()):
                    raise UnclearAnswerError(f"Two answers for {', '.join(twice)[:200]}.")
                else:
                    found.update(told)
            case _:
                raise UnclearAnswerError("An answer is a text or data.")
    if texts:
        found = {**dict.fromkeys(known, "".join(texts)), **found}
    if missing := known.keys() - found.keys():
        raise UnclearAnswerError(f"No answer for {', '.join(sorted(missing))}.")
    return {
        call_id: _approval(known[call_id], value) if known[call_id].approval else value
        for call_id, value in found.items()
    }


def _approval(call: OpenCall, value: Any) -> Approval:
    """The answer to a call. Raises UnclearAnswerError for one that is none, or not allowed."""
    found = _read(call, value)
    changed = found.approved and found.arguments not in (None, call.value)
    decision = "edit" if changed else "approve" if found.approved else "reject"
    if decision not in call.decisions:
        raise UnclearAnswerError(_NOT_ALLOWED[decision].format(call.name))
    return found if changed else replace(found, arguments=None)


def _read(call: OpenCall, value: Any) -> Approval:
    match value:
        case bool():
            return Approval(value)
        case str():
            approved = is_yes(value)
            return Approval(approved, "" if approved or _word(value) in _NO else value.strip())
        case {"approved": bool(approved)}:
            reason, arguments = value.get("reason", ""), value.get("arguments")
            if isinstance(reason, str) and (arguments is None or isinstance(arguments, dict)):
                return Approval(approved, reason, arguments)
    form = '{"approved": …, "reason": …, "arguments": …}'
    raise UnclearAnswerError(f"The answer for {call.call_id} is true, false, a text, or {form}.")


def is_yes(text: str) -> bool:
    """True for a text that agrees."""
    return _word(text) in _YES


def _word(text: str) -> str:
    return text.strip().rstrip(".!").lower()


def _text(value: Any) -> str:
    if isinstance(value, dict):
        for member in ("question", "message", "description"):
            if isinstance(told := value.get(member), str):
                return told
    return json_text(value)
