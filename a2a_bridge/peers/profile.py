"""A peer profile: one implementation of A2A, its recognition, and where it deviates from the specification.

Rules:
1. A dialect says what a version is; a profile says how one implementation deviates from it.
2. A quirk is a typed field whose default is neutral. A behaviour that is harmless for every peer needs none.
3. Every quirk that a profile sets has its evidence: a place in the source of the implementation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Literal


class Files(Enum):
    """The content of `file_with_bytes` of a2a.v1 that a peer writes and expects."""

    #: unknown; the content tells (see dialects/v0_3/proto_files.py)
    AUTO = "auto"
    #: the content, as in the specification
    RAW = "raw"
    #: the ASCII characters of the content's base64 text
    BASE64 = "base64"
    #: one or the other, by the release: the first file of a caller tells; without a file it is base64
    EITHER = "either"


class ErrorData(Enum):
    """The JSON type that a peer can read in `error.data` of a JSON-RPC response of 0.3."""

    ANY = "any"
    OBJECT = "object"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Quirks:
    """Deviations of one implementation. Every default is neutral."""

    #: the bytes of a file in 0.3 and 0.2.5 over gRPC and HTTP+JSON: the content, or its base64 text
    file_bytes: Files = Files.AUTO
    #: the JSON type that a caller of 0.3 reads in `error.data` of JSON-RPC
    error_data: ErrorData = ErrorData.ANY
    #: the response to a JSON-RPC stream is read as events only: a rejection is an event, because the caller
    #: takes an error as JSON for an empty success, or for an untyped error
    events_only: bool = False
    #: HTTP+JSON of 0.3 is read without members younger than v0.3.0: metadata of parts and names of files go
    #: into the metadata of the message or artifact, as `urn:a2a-bridge:parts:1`
    strict_json: bool = False
    #: push configurations of 1.0 have the shape of a draft: answers have its members, too. Requests in this
    #: shape are read from every caller
    draft_push_configs: bool = False
    #: the longest line of an event stream that is read, in bytes; 0: any. Longer lines are dropped silently
    max_event_line: int = 0
    #: a `historyLength` of 0 in `tasks/get` of 0.3 over JSON-RPC requests no history; others mean all of it
    zero_history: bool = False
    #: a card with an interface that is no HTTP URL of the card's own origin is rejected as a whole. `check`
    #: names the reader; its requests look like those of its SDK
    http_cards: bool = False
    #: as an agent of 1.0, it answers a message that waits with a task in work: the gateway waits for the task
    answers_early: bool = False
    #: a card of 1.0 that has members of another version is rejected as a whole. `check` names the reader
    exact_cards: bool = False


NEUTRAL = Quirks()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a profile has a quirk."""

    #: version, file and line of the implementation; or how it was observed
    source: str
    #: the first version without the quirk; empty where none is known
    until: str = ""


@dataclass(frozen=True, slots=True)
class GrpcAddress:
    """The gRPC address of a card that the clients of an implementation dial."""

    #: the form that they can dial: `bare` is `host:port`, `any` is a URL too
    form: Literal["bare", "any"]
    #: the one that they take of several entries for gRPC in the members of 0.x
    entry: Literal["first", "last"]
    #: version, file and line of the implementation
    source: str


@dataclass(frozen=True, slots=True)
class CallerSigns:
    """How a request shows which implementation sent it. All conditions have to hold."""

    #: how a product of the User-Agent header begins; "" for a request without that header, None for any
    user_agent: str | None = None
    #: header (lower case) -> how its value begins; "" where it only has to be there
    sends: Mapping[str, str] = field(default_factory=dict)
    #: headers (lower case) that must not be there
    lacks: frozenset[str] = frozenset()

    @property
    def headers(self) -> frozenset[str]:
        """The headers that decide, other than User-Agent."""
        return self.lacks | self.sends.keys()

    @property
    def example(self) -> dict[str, str]:
        """Headers of a request with the signs."""
        values = {name: start or "1.0" for name, start in self.sends.items()}
        return {**values, "user-agent": f"{self.user_agent}/1"} if self.user_agent else values

    def match(self, user_agent: str, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers (those of the table) and this user agent has the signs."""
        if self.user_agent == "" and user_agent:
            return False
        if self.user_agent and not any(product.startswith(self.user_agent) for product in user_agent.split()):
            return False
        return self.lacks.isdisjoint(headers) and all(
            name in headers and headers[name].startswith(start) for name, start in self.sends.items()
        )


@dataclass(frozen=True, slots=True)
class AgentSigns:
    """How the response with an agent's card shows its implementation: all conditions have to hold."""

    #: response header (lower case) -> how its value begins
    headers: Mapping[str, str] = field(default_factory=dict)
    #: members that the card has
    members: frozenset[str] = frozenset()
    #: members that the card does not have
    lacks: frozenset[str] = frozenset()
    #: the first members of the card, in this order
    begins: tuple[str, ...] = ()

    def match(self, headers: Mapping[str, str], members: Collection[str]) -> bool:
        """Whether a response with these headers, and a card with these members in their order, has the
        signs.
        """
        return (
            self.members.issubset(members)
            and self.lacks.isdisjoint(members)
            and tuple(members)[: len(self.begins)] == self.begins
            and all(
                name in headers and headers[name].startswith(start) for name, start in self.headers.items()
            )
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """One implementation. Raises ValueError for quirks without evidence, and evidence without quirks."""

    #: unique, such as `a2a-go-0.3`; the value of `--peer`
    name: str
    #: the implementation and its versions, for people
    about: str
    #: signs of its requests; any of them is enough. Empty: it is never recognised as a caller
    callers: tuple[CallerSigns, ...] = ()
    #: signs of its card; any of them is enough. Empty: it is never recognised as an agent, only named
    agents: tuple[AgentSigns, ...] = ()
    quirks: Quirks = NEUTRAL
    #: name of a quirk -> its evidence
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    #: the form of gRPC addresses that it needs in cards (see `cards.GrpcUrls`); None if it is not known.
    #: For operators: a card has one form for all its readers
    grpc: GrpcAddress | None = None

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or " " in self.name:
            raise ValueError(f"a profile needs a name without spaces, not {self.name!r}")
        if self.deviations.keys() != self.evidence.keys():
            differ = ", ".join(sorted(self.deviations.keys() ^ self.evidence.keys()))
            raise ValueError(f"profile {self.name}: quirks and evidence differ in {differ}")

    @property
    def deviations(self) -> dict[str, Any]:
        """The quirks that are not neutral, by name."""
        found = {one.name: getattr(self.quirks, one.name) for one in fields(Quirks)}
        return {name: value for name, value in found.items() if value != getattr(NEUTRAL, name)}


#: a peer about which nothing is known
UNKNOWN = Profile("unknown", "an implementation that no profile describes")
