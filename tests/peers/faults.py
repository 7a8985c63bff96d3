"""The faults of other SDKs, with reasons: masks of both sides of a comparison at some lines.

Each one is the peer's own, and also shows when it talks to itself (test_peers_alone.py).
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tests.peers.processes import GRPC, HTTP_JSON, JSONRPC
from tests.peers.transcript import OPAQUE, Lines

Mask = Callable[[Any], Any]

AGENT, CLIENT = "agent", "client"
#: of both sides of one SDK, when they talk to each other without us
ALONE = "alone"


#: the result of a mask for a line that is not compared
GONE = object()

_ERROR_NAME = re.compile(r"^[A-Z]\w+Error: ")


def without_empties(tree: Any) -> Any:
    """Strings, lists and objects that are empty, and booleans that are false, count as absent."""
    if isinstance(tree, dict):
        kept = {name: value if name in OPAQUE else without_empties(value) for name, value in tree.items()}
        return {name: value for name, value in kept.items() if value not in ("", [], {}, False)}
    return [without_empties(item) for item in tree] if isinstance(tree, list) else tree


def without_empty_containers(tree: Any) -> Any:
    """Lists and objects that are empty count as absent."""
    if isinstance(tree, dict):
        kept = {
            name: value if name in OPAQUE else without_empty_containers(value) for name, value in tree.items()
        }
        return {name: value for name, value in kept.items() if value not in ([], {})}
    return [without_empty_containers(item) for item in tree] if isinstance(tree, list) else tree


def integers(tree: Any) -> Any:
    """1.0 counts as 1."""
    if isinstance(tree, dict):
        return {name: integers(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [integers(item) for item in tree]
    return int(tree) if isinstance(tree, float) and tree.is_integer() else tree


def dropping(*members: str, within: str = "") -> Mask:
    """Removes members everywhere, or only in objects that have `within`."""

    def mask(tree: Any) -> Any:
        if isinstance(tree, dict):
            gone = members if not within or within in tree else ()
            return {
                name: value if name in OPAQUE else mask(value)
                for name, value in tree.items()
                if name not in gone
            }
        return [mask(item) for item in tree] if isinstance(tree, list) else tree

    return mask


def without_phantoms(tree: Any) -> Any:
    """A status with an empty message counts as one without a message."""
    if isinstance(tree, dict):
        return {
            name: value if name in OPAQUE else without_phantoms(value)
            for name, value in tree.items()
            if not (name == "message" and isinstance(value, dict) and not value.get("parts"))
        }
    return [without_phantoms(item) for item in tree] if isinstance(tree, list) else tree


def rejected_as_unknown(tree: Any) -> Any:
    """A task that is rejected counts as one of an unknown state."""
    if isinstance(tree, dict):
        return {
            name: "unknown" if (name, value) == ("state", "rejected") else rejected_as_unknown(value)
            for name, value in tree.items()
        }
    return [rejected_as_unknown(item) for item in tree] if isinstance(tree, list) else tree


def without_final_unknowns(tree: Any) -> Any:
    """`final` does not count if the state is unknown, or may have become so."""
    if isinstance(tree, dict) and tree.get("status", {}).get("state") in ("unknown", "rejected"):
        return {name: value for name, value in tree.items() if name != "final"}
    return tree


def rejected(tree: Any) -> Any:
    """Only the fact of a rejection is compared."""
    return {"rejected": "…"} if isinstance(tree, dict) and "rejected" in tree else tree


def first_part_only(tree: Any) -> Any:
    """Of an artifact's parts, the first is compared."""
    parts = tree.get("artifact", {}).get("parts") if isinstance(tree, dict) else None
    return tree | {"artifact": tree["artifact"] | {"parts": parts[:1]}} if parts else tree


def wordless(tree: Any) -> Any:
    """The reason of a rejection is compared, its text is not."""
    return tree | {"message": "…"} if isinstance(tree, dict) and "rejected" in tree else tree


def without_error_names(tree: Any) -> Any:
    """The text of a rejection is compared without the name of the error in front."""
    if isinstance(tree, dict) and "rejected" in tree:
        return tree | {"message": _ERROR_NAME.sub("", tree["message"])}
    return tree


def nothing(_: Any) -> Any:
    """The line is not compared, and may be absent."""
    return GONE


def without_snapshots(tree: Any) -> Any:
    """A task that a gateway generated and marked may be absent."""
    mark = "urn:a2a-bridge:synthesised:1"
    return GONE if isinstance(tree, dict) and mark in tree.get("metadata", {}) else tree


def without_defaults(tree: Any) -> Any:
    """append and lastChunk count as absent when they are false."""
    if isinstance(tree, dict):
        return {
            name: value if name in OPAQUE else without_defaults(value)
            for name, value in tree.items()
            if not (name in ("append", "lastChunk") and value is False)
        }
    return [without_defaults(item) for item in tree] if isinstance(tree, list) else tree


def without_unmapped(tree: Any) -> Any:
    """The bridge's own content in metadata, and in a card's extensions, may be absent."""
    if isinstance(tree, dict):
        kept = {
            name: without_unmapped(value)
            for name, value in tree.items()
            if not name.startswith("urn:a2a-bridge:")
        }
        return {
            name: value
            for name, value in kept.items()
            if value or value == tree[name] or name not in ("metadata", "params", "extensions")
        }
    if isinstance(tree, list):
        return [without_unmapped(item) for item in tree if not _only_residue(item)]
    return tree


def _only_residue(item: Any) -> bool:
    return isinstance(item, dict) and str(item.get("uri", "")).startswith("urn:a2a-bridge:")


@dataclass(frozen=True)
class Fault:
    """reason: why. role, release, bindings: of the peer. conversation, label: shell patterns of the affected
    lines. sometimes: whether it comes and goes. endless: a conversation that would never end, so that it is
    not begun.
    """

    reason: str
    role: str
    release: str
    bindings: tuple[str, ...]
    mask: Mask
    conversation: str = "*"
    label: str = "*"
    sometimes: bool = False
    endless: bool = False

    def __str__(self) -> str:
        return f"{self.role} {self.release} {'/'.join(self.bindings)}: {self.reason}"

    def of(self, role: str, release: str, binding: str) -> bool:
        return (self.role, self.release) == (role, release) and binding in self.bindings


WITHOUT_REFERENCES = dropping("referenceTaskIds")
WITHOUT_MEDIA_TYPES = dropping("mediaType")
WITHOUT_METADATA = dropping("metadata")
WITHOUT_EXTENSIONS = dropping("extensions")
BARE_BYTES = dropping("name", "mimeType", within="bytes")
BARE_URI = dropping("name", "mimeType", within="uri")

PROTO = (HTTP_JSON, GRPC)
EVERY = (JSONRPC, HTTP_JSON, GRPC)


def _layer(release: str, bindings: tuple[str, ...]) -> list[Fault]:
    """The faults of the a2a.v1 layer of the 0.x SDKs, on either side."""
    return [
        Fault(reason, role, release, bindings, mask)
        for role in (AGENT, CLIENT)
        for reason, mask in (
            ("absent strings, lists, objects and booleans come out as empty ones", without_empties),
            ("numbers in metadata and data come out as doubles", integers),
            ("referenceTaskIds have no place", WITHOUT_REFERENCES),
            ("a status without a message gets one that says nothing", without_phantoms),
        )
    ]


#: of agents and clients of 0.2.16 over gRPC, which was new in it
_GRPC_OF_0_2 = [
    Fault(reason, role, "0.2.16", (GRPC,), mask)
    for role in (AGENT, CLIENT)
    for reason, mask in (
        ("metadata of messages, parts, artifacts and events is not passed on", WITHOUT_METADATA),
        ("extensions are not passed on", WITHOUT_EXTENSIONS),
        ("files have neither name nor media type", BARE_BYTES),
        ("files have neither name nor media type", BARE_URI),
        ("rejected is not among its states and becomes unknown", rejected_as_unknown),
    )
]

FAULTS: tuple[Fault, ...] = (
    *(
        Fault(
            "events are lost when the agent raises before they are fetched",
            AGENT,
            release,
            EVERY if release != "0.2.16" else (JSONRPC, GRPC),
            nothing,
            "errors",
            "midway * event",
            sometimes=True,
        )
        for release in ("0.2.16", "0.3.26", "1.3.0", "1.3.0 compat")
    ),
    *_layer("0.3.26", PROTO),
    *_layer("0.2.16", (GRPC,)),
    *_GRPC_OF_0_2,
    Fault(
        "an error at the start of a stream, or in it, cuts the connection without a word",
        AGENT,
        "0.3.26",
        (HTTP_JSON,),
        rejected,
        label="* rejected",
    ),
    Fault(
        "an error at the start of a stream, or in it, cuts the connection without a word",
        AGENT,
        "1.3.0 compat",
        (HTTP_JSON,),
        rejected,
        label="* rejected",
    ),
    *(
        Fault(
            "an error in a stream cuts the connection, and whoever looks afterwards may find a task that has failed",
            AGENT,
            release,
            (HTTP_JSON,),
            nothing,
            "errors",
            label,
            sometimes=True,
        )
        for release in ("0.3.26", "1.3.0 compat")
        for label in ("midway * rejected", "midway * ended")
    ),
    *(
        Fault("members that 0.3 does not know are dropped", CLIENT, release, bindings, WITHOUT_MEDIA_TYPES)
        for release, bindings in (("0.2.16", (JSONRPC, GRPC)), ("0.3.26", EVERY), ("1.3.0 compat", EVERY))
    ),
    Fault(
        "the words of an error that comes in place of a stream are not read",
        CLIENT,
        "0.3.26",
        (HTTP_JSON,),
        rejected,
        label="* rejected",
    ),
    *(
        Fault(
            "a chunk is read by a second subscriber after the task manager has appended the next one to the same object;"
            " the scheduling of tasks, which differs between Python versions, decides it",
            AGENT,
            release,
            bindings,
            first_part_only,
            "resubscribed",
            "again chunk 1",
            sometimes=True,
        )
        for release, bindings in (("0.2.16", (JSONRPC, GRPC)), ("0.3.26", EVERY))
    ),
    *(
        Fault(
            "who resubscribed may miss the end: the first to hear of it closes the queues of all",
            AGENT,
            release,
            bindings,
            nothing,
            "resubscribed",
            "again e*",
            sometimes=True,
        )
        for release, bindings in (("0.2.16", (JSONRPC, GRPC)), ("0.3.26", EVERY))
    ),
    *(
        Fault(
            "the extended card is asked for and the public one is answered",
            AGENT,
            release,
            (GRPC,),
            nothing,
            "extended_card",
        )
        for release in ("0.2.16", "0.3.26")
    ),
    *(
        Fault(
            "listing fails and deleting is not offered, on the bindings that are not JSON-RPC",
            AGENT,
            "0.3.26",
            PROTO,
            nothing,
            "push_config_lists",
            label,
        )
        for label in ("list*", "delete")
    ),
    Fault("numbers in metadata and data come out as doubles", AGENT, "1.3.0 compat", EVERY, integers),
    Fault(
        "an error in a stream is told as an unknown one, with its whole text as words",
        CLIENT,
        "1.3.0 compat",
        (HTTP_JSON,),
        rejected,
        "errors",
        "midway * rejected",
    ),
    Fault(
        "final is made of the state alone, so it is lost where an agent of 0.2 does not know the state",
        CLIENT,
        "1.3.0 compat",
        EVERY,
        without_final_unknowns,
        "ends",
    ),
    Fault("referenceTaskIds have no place", CLIENT, "1.3.0 compat", PROTO, WITHOUT_REFERENCES),
    Fault("referenceTaskIds have no place", AGENT, "1.3.0 compat", PROTO, WITHOUT_REFERENCES),
    *(
        Fault(
            "a task's name is read up to the first hyphen of its id, so no task is found",
            AGENT,
            "0.2.16",
            (GRPC,),
            nothing,
            conversation,
            label,
            # A gateway that shares the stream of the task need not call the agent.
            sometimes=conversation == "resubscribed",
        )
        for conversation, label in (("*", "get"), ("*", "cancel"), ("resubscribed", "*"))
    ),
    Fault(
        "listing and deleting push notification configs are not in it yet",
        AGENT,
        "0.2.16",
        (GRPC,),
        nothing,
        "push_config_lists",
    ),
    Fault(
        "append and lastChunk are absent when they are false", AGENT, "1.3.0 compat", PROTO, without_defaults
    ),
    *(
        Fault(
            "deleting a push notification config is not mounted",
            AGENT,
            "1.3.0 compat",
            (HTTP_JSON,),
            nothing,
            "push_config_lists",
            label,
        )
        for label in ("delete", "list again")
    ),
    Fault(
        "setting a push notification config fails for lack of an await",
        AGENT,
        "0.2.16",
        (GRPC,),
        nothing,
        "push_configs",
        "[sg]et",
    ),
    Fault(
        "a push notification config is named without its task when set, and without its id when read",
        CLIENT,
        "0.2.16",
        (GRPC,),
        nothing,
        "push_configs",
        "[sg]et",
    ),
    Fault(
        "an answer that is a message is taken for a task without content",
        CLIENT,
        "0.2.16",
        (GRPC,),
        nothing,
        "direct_message",
    ),
)


def faults_of(role: str, release: str, binding: str) -> list[Fault]:
    return [fault for fault in FAULTS if fault.of(role, release, binding)]


def masked(conversation: str, lines: Lines, faults: Iterable[Fault]) -> Lines:
    fitting = [fault for fault in faults if fnmatchcase(conversation, fault.conversation)]
    told = []
    for label, tree in lines:
        seen = tree
        for fault in fitting:
            if seen is not GONE and fnmatchcase(label, fault.label):
                seen = fault.mask(seen)
        if seen is not GONE:
            told.append((label, seen))
    return told


def differences(conversation: str, expected: Lines, got: Lines, faults: Iterable[Fault]) -> list[str]:
    """The differences of two transcripts of a conversation, without those of the faults."""
    faults = list(faults)
    want, have = masked(conversation, expected, faults), masked(conversation, got, faults)
    found = []
    for (label, before), (other, after) in zip(want, have, strict=False):
        if label != other:
            found.append(f"{conversation}, {label}: got line {other!r} instead: {_short(after)}")
            return found
        found += [f"{conversation}, {label}: {text}" for text in trees(before, after)]
    if len(want) != len(have):
        more = [label for label, _ in (want[len(have) :] or have[len(want) :])]
        found.append(f"{conversation}: {len(want)} lines expected, got {len(have)}: {more}")
    return found


def trees(before: Any, after: Any, path: str = "$") -> list[str]:
    """The paths at which two trees differ; 1 and 1.0 do."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for name in sorted(before.keys() | after.keys())
            for line in (
                trees(before[name], after[name], f"{path}.{name}")
                if name in before and name in after
                else [f"{path}.{name} {'is gone' if name in before else 'came up: ' + _short(after[name])}"]
            )
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [line for number, pair in enumerate(pairs) for line in trees(*pair, f"{path}[{number}]")]
    if type(before) is type(after) and before == after:
        return []
    return [f"{path} is {_short(after)}, not {_short(before)}"]


def _short(tree: Any) -> str:
    text = json.dumps(tree, ensure_ascii=False)
    return text if len(text) <= 160 else text[:157] + "..."
