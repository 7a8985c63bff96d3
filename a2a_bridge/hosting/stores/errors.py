"""Errors of opening a store."""

from __future__ import annotations


class StoreOpenError(Exception):
    """The store of a URL cannot be opened."""

    def __init__(self, text: str, remedy: str = "", *, unreachable: bool = False) -> None:
        super().__init__(f"{text}; try {remedy}" if remedy else text)
        #: the reason, for people
        self.text = text
        #: what to do: a command line or an option; may be empty
        self.remedy = remedy
        #: the database server does not answer or refuses the login: trying again may help
        self.unreachable = unreachable
