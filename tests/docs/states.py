"""The tables of states in docs/explanation/design.md: which state may follow which, as the code has them."""

import inspect
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from a2a_bridge.gateway import stream_states
from a2a_bridge.hosting import lease, pending_send, phases
from a2a_bridge.stores import group_states, lease_states
from a2a_bridge_transports._http import input_states

#: a member of an Enum with the comment before it
_MEMBER = re.compile(r"((?: *#: .*\n)+) +\w+ = \"(.*)\"")


def _table(title: str, meanings: Mapping[str, str], transitions: Mapping[Any, frozenset[Any]]) -> str:
    lines = [f"| {title} | meaning | may be followed by |", "|---|---|---|"]
    for state, (name, meaning) in zip(transitions, meanings.items(), strict=True):
        after = [to for one, to in zip(transitions, meanings, strict=True) if one in transitions[state]]
        lines.append(f"| {name} | {meaning} | {', '.join(after) or 'nothing'} |")
    return "\n".join(lines) + "\n"


def _of_members(states: type[StrEnum]) -> dict[str, str]:
    """The members of an Enum, with their comments."""
    found = _MEMBER.findall(inspect.getsource(states))
    return {name: " ".join(line.strip(" #:") for line in comment.splitlines()) for comment, name in found}


def _of_class(state: type) -> str:
    """The docstring of a state up to the first member that it explains."""
    text = (inspect.getdoc(state) or "").replace("\n", " ")
    return re.split(r"\. \w+: ", text)[0].rstrip(".")


def run_phases() -> str:
    """The phases of a run."""
    return _table("phase of a run", _of_members(phases.Phase), phases.TRANSITIONS)


def leases() -> str:
    """The states of the lease of a run."""
    meanings = {state.__name__: _of_class(state) for state in lease.TRANSITIONS}
    return _table("lease of a run", meanings, lease.TRANSITIONS)


def senders() -> str:
    """The states of a sender."""
    return _table("sender, which waits", _of_members(pending_send.SenderState), pending_send.TRANSITIONS)


def stored_leases() -> str:
    """The states of a lease in a store."""
    return _table("lease in a store", _of_members(lease_states.LeaseState), lease_states.TRANSITIONS)


def writers() -> str:
    """The states of the writer of groups."""
    meanings = {state.__name__: _of_class(state) for state in group_states.TRANSITIONS}
    return _table("writer of groups", meanings, group_states.TRANSITIONS)


def inputs() -> str:
    """The states of the input of a connection of the HTTP host."""
    return _table("next bytes of a client", _of_members(input_states.Input), input_states.TRANSITIONS)


def streams() -> str:
    """The states of a stream of a gateway."""
    return _table("stream of a gateway", _of_members(stream_states.Life), stream_states.LIVES)


def readings() -> str:
    """The states of a run of reading from the agent."""
    title = "reading of the agent's stream"
    return _table(title, _of_members(stream_states.Reading), stream_states.READINGS)
