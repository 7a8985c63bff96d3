"""The states of the input of a connection, and which may follow which. Docs and tests read the same table."""

from enum import StrEnum


class Input(StrEnum):
    """What the next bytes of a client are, and how long it may take. The values are for error messages."""

    #: the first request, within `header_timeout`
    NEW = "new"
    #: a further request, within KEEP_CONNECTION
    KEPT = "kept"
    #: the rest of the head of a request, within `header_timeout`
    HEAD = "head"
    #: the rest of the body of the present request, at a least rate while its handler waits for it
    BODY = "body"
    #: further requests, whose turn comes after the answer to the present one, or after other connections
    AHEAD = "ahead"
    #: nothing that counts: it is thrown away for LINGER, or the connection is closed or lost
    IGNORED = "ignored"


NEW, KEPT, HEAD, BODY, AHEAD, IGNORED = Input  # to read a member of an Enum takes Python 3.11 long

#: state -> the states that may follow it
TRANSITIONS: dict[Input, frozenset[Input]] = {
    NEW: frozenset({HEAD, BODY, AHEAD, IGNORED}),
    KEPT: frozenset({HEAD, BODY, AHEAD, IGNORED}),
    HEAD: frozenset({BODY, AHEAD, IGNORED}),
    BODY: frozenset({AHEAD, IGNORED}),
    AHEAD: frozenset({KEPT, IGNORED}),
    IGNORED: frozenset({IGNORED}),  # a rejected request is answered, and a connection that lingers is closed
}
