"""Errors of stores: of opening one, and of one that does not work."""

from __future__ import annotations

from a2a_bridge.core.errors import A2AError, Blame, Reason


class StoreOpenError(Exception):
    """The store of a URL cannot be opened."""

    def __init__(self, text: str, remedy: str = "", *, unreachable: bool = False) -> None:
        super().__init__(f"{text}; try {remedy}" if remedy else text)
        #: the reason, for people
        self.text = text
        #: what to do: a command line or an option; may be empty
        self.remedy = remedy
        #: the database server does not answer or rejects the login: trying again may help
        self.unreachable = unreachable


def unavailable() -> A2AError:
    """The error for callers while the store does not work."""
    text = "the agent's store is not available; try again"
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
