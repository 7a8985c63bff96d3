"""Whether a conversation with a scripted agent went as it must: by its lines, whatever server it was.

A check knows what the script and the protocol demand, and nothing of words of errors or a server's choices:
an error after a task began may be told as an error, or as a failed task.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from a2a_bridge.codec import encoder
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.scenarios import RAISED, rich_parts
from tests.peers.conversations import rich_parts as rich_parts_0_3
from tests.peers.transcript import STUCK, Lines

#: members of a StreamResponse or a SendMessageResponse -> `kind` of 0.3
KINDS = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
_EVENT = re.compile(r"(?P<label>.*) (?:event|\d+)")


def _plain(tree: Any) -> Any:
    """An outcome in one form for both notations: with `kind`, and states as in 0.3."""
    if not isinstance(tree, dict):
        return tree
    if "rejected" in tree:
        return {"error": tree["rejected"], "message": tree["message"]}
    if "error" in tree:
        return {"error": tree["error"]["reason"], "message": tree["error"]["message"]}
    for member, kind in KINDS.items():
        if set(tree) == {member}:
            return {"kind": kind, **tree[member]}
    return tree


class Seen:
    """The lines of a conversation. The methods raise AssertionError for what is missing or wrong."""

    def __init__(self, lines: Lines) -> None:
        self.lines = [(label, _plain(outcome)) for label, outcome in lines]
        assert (STUCK, None) not in lines, "nothing came within the time limit"

    def labels(self) -> list[str]:
        return [label for label, _ in self.lines]

    def _all(self, label: str) -> list[Any]:
        return [outcome for name, outcome in self.lines if name == label]

    def outcome(self, label: str) -> Any:
        """The first line of a label."""
        found = self._all(label)
        assert found, f"{label}: nothing"
        return found[0]

    def answer(self, label: str) -> Any:
        tree = self.outcome(label)
        assert isinstance(tree, dict), f"{label}: {tree}"
        assert "error" not in tree, f"{label}: {tree}"
        return tree

    def task(self, label: str, state: str, text: str = "") -> Any:
        """An answer that is a task in a state, with a text in its status."""
        tree = self.answer(label)
        _in_state(label, tree, state, text)
        return tree

    def said(self, label: str, text: str) -> None:
        tree = self.answer(label)
        assert (tree.get("kind"), texts(tree["parts"])) == ("message", [text]), f"{label}: {tree}"

    def rejected(self, label: str, *reasons: str, text: str = "") -> None:
        """An error of one of the reasons; any reason if none is given."""
        tree = self.outcome(label)
        assert isinstance(tree, dict), f"{label}: no error"
        assert "error" in tree, f"{label}: no error, but {tree}"
        assert not reasons or tree["error"] in reasons, f"{label}: {tree}"
        assert text in tree["message"], f"{label}: {tree}"

    def events(self, label: str, *, ended: bool = True) -> list[Any]:
        """The events of a stream that ended without an error."""
        if ended:
            assert f"{label} ended" in self.labels(), f"{label}: the stream did not end properly"
        return self._events(label)

    def _events(self, label: str) -> list[Any]:
        return [
            outcome
            for name, outcome in self.lines
            if (match := _EVENT.fullmatch(name)) is not None and match["label"] == label
        ]

    def refused(self, label: str, *reasons: str, text: str = "") -> None:
        """A stream without an event, that ended with an error."""
        assert not self._events(label), f"{label}: has events"
        end = "failed" if f"{label} failed" in self.labels() else "rejected"
        self.rejected(f"{label} {end}", *reasons, text=text)

    def fails_midway(self, label: str, *reasons: str, text: str = "") -> None:
        """A stream that ends with one of these errors, or with a failed task; earlier events may miss."""
        for end in ("failed", "rejected"):
            if f"{label} {end}" in self.labels():
                self.rejected(f"{label} {end}", *reasons, text=text)
                return
        _in_state(label, self.events(label)[-1], "failed", text)

    def fails(self, label: str, *reasons: str, text: str = "") -> None:
        if "error" in self.outcome(label):
            self.rejected(label, *reasons, text=text)
        else:
            self.task(label, "failed", text)


def state(tree: Any) -> str:
    """The state of a task or of a status update, as 0.3 writes it."""
    written = str(tree.get("status", {}).get("state", ""))
    return written.removeprefix("TASK_STATE_").lower().replace("_", "-")


def texts(parts: Iterable[Any]) -> list[str]:
    return [part["text"] for part in parts if "text" in part]


def status_text(tree: Any) -> str:
    return "".join(texts((tree["status"].get("message") or {}).get("parts", ())))


def artifact_texts(task: Any) -> list[list[str]]:
    return [texts(artifact["parts"]) for artifact in task.get("artifacts") or ()]


def chunks(events: Iterable[Any]) -> list[str]:
    """The texts of the artifact updates among events."""
    return [text for event in events if "artifact" in event for text in texts(event["artifact"]["parts"])]


def states(events: Iterable[Any]) -> list[str]:
    """The states of the tasks and status updates among events."""
    return [state(event) for event in events if "status" in event]


def _in_state(label: str, tree: Any, wanted: str, text: str) -> None:
    assert state(tree) == wanted, f"{label}: is {state(tree) or tree}, not {wanted}"
    assert text in status_text(tree), f"{label}: says {status_text(tree)!r}, not {text!r}"


def has_rich_parts(label: str, message: Any, sent: list[Any]) -> None:
    """A message that repeats the parts, metadata, extensions and references of the request."""
    parts = message["parts"]
    assert parts == sent, f"{label}: {parts}"
    assert message["metadata"] == {"top": [1, 2, {"three": 3}]}, f"{label}: {message['metadata']}"
    assert message["extensions"] == ["https://e.example/1"], label


def has_data(artifact: Any) -> None:
    """The artifact of a `data` step: a value and two files."""
    value, content, link = artifact["parts"]
    assert value["data"] == {"n": 7, "list": [None, True, {"deep": "x"}], "half": 0.5}, value
    content, link = content.get("file", content), link.get("file", link)
    assert content.get("raw", content.get("bytes")) == "AP8A/wD/AP8A/wD/AP8A/w==", content
    assert link.get("url", link.get("uri")) == "https://example.org/x.png", link


Check = Callable[[Seen], None]

#: scenario of 1.0 -> its check
IN_1_0: dict[str, Check] = {}
#: conversation in the terms of 0.3 -> its check
IN_0_3: dict[str, Check] = {}


def _in(*tables: dict[str, Check], name: str = "") -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        for table in tables:
            table[name or check.__name__] = check
        return check

    return add


@_in(IN_1_0)
def direct_message(seen: Seen) -> None:
    sent = encoder(hub.Message)(hub.Message(parts=rich_parts()))["parts"]
    has_rich_parts("send", seen.answer("send"), sent)
    has_rich_parts("stream", seen.events("stream")[0], sent)
    seen.said("say", "hello")


@_in(IN_0_3, name="direct_message")
def direct_message_0_3(seen: Seen) -> None:
    has_rich_parts("send", seen.answer("send"), rich_parts_0_3())
    seen.said("say", "hello")


@_in(IN_0_3)
def a_streamed_message(seen: Seen) -> None:
    has_rich_parts("stream", seen.events("stream")[0], rich_parts_0_3())
    (said,) = seen.events("say")
    assert texts(said["parts"]) == ["hello"]


@_in(IN_1_0)
def line_ends_of_unicode(seen: Seen) -> None:
    text = ["a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029b\r\n\rc"]
    assert texts(seen.answer("send")["parts"]) == text
    assert [texts(event["parts"]) for event in seen.events("stream")] == [text]


@_in(IN_1_0)
def blocking_task(seen: Seen) -> None:
    for label in ("send", "get None", "get 0", "get 1", "get 2", "get 100"):
        task = seen.task(label, "completed", "bye")
        assert artifact_texts(task) == [["one", "two"], []], f"{label}: {task['artifacts']}"
        has_data(task["artifacts"][1])
    assert not seen.answer("get 0").get("history")
    assert len(seen.answer("get 1")["history"]) == 1
    assert texts(seen.answer("get None")["history"][0]["parts"])[0].startswith("script: open")


@_in(IN_0_3)
def a_task(seen: Seen) -> None:
    for label in ("send", "get"):
        task = seen.task(label, "completed", "bye")
        assert artifact_texts(task) == [["one", "two"]], label
        assert texts(task["history"][0]["parts"])[0].startswith("script: open"), label


@_in(IN_0_3)
def a_task_with_everything(seen: Seen) -> None:
    for label in ("send", "get"):
        copy, data = seen.task(label, "completed")["artifacts"]
        assert copy["parts"][1:] == rich_parts_0_3(), label
        assert copy["metadata"] == {"of": ["message", 1]}, label
        has_data(data)


@_in(IN_1_0)
def send_with_history_length(seen: Seen) -> None:
    for length in (0, 1):
        assert len(seen.task(f"send {length}", "completed", "bye").get("history", ())) == length
        assert states(seen.events(f"stream {length}")) == ["submitted", "working", "completed"]


@_in(IN_1_0)
def streamed_task(seen: Seen) -> None:
    events = seen.events("stream")
    assert states(events) == ["submitted", "working", "completed"]
    assert chunks(events) == ["one", "two", "three"]
    updates = [event for event in events if "artifact" in event]
    assert [bool(event.get("append")) for event in updates] == [False, True, True, False]
    assert [bool(event.get("lastChunk")) for event in updates] == [False, False, True, True]
    has_data(updates[-1]["artifact"])
    assert (status_text(events[1]), status_text(events[-1])) == ("busy", "bye")


@_in(IN_0_3)
def a_streamed_task(seen: Seen) -> None:
    events = seen.events("stream")
    assert states(events) == ["submitted", "working", "completed"]
    assert chunks(events)[:3] == ["one", "two", "three"]
    data, copy = [event["artifact"] for event in events if "artifact" in event][3:]
    has_data(data)
    assert copy["parts"][1:] == rich_parts_0_3()
    assert [event["final"] for event in events if event["kind"] == "status-update"] == [False, True]


@_in(IN_1_0, IN_0_3)
def ends(seen: Seen) -> None:
    for label, end, text in (
        ("done well", "completed", "well"),
        ("fail badly", "failed", "badly"),
        ("reject you", "rejected", "you"),
    ):
        seen.task(label, end, text)
        events = seen.events(label)
        assert states(events) == ["submitted", "working", end], f"{label}: {states(events)}"
        assert status_text(events[-1]) == text, label


@_in(IN_1_0)
def immediate_and_subscribed(seen: Seen) -> None:
    for label in ("send", "get", "snapshot"):
        seen.task(label, "submitted")
    seen.said("free", "freed")
    rest = seen.events("rest")
    assert (chunks(rest), states(rest)) == (["a"], ["completed"])
    assert artifact_texts(seen.task("after", "completed")) == [["a"]]


@_in(IN_1_0)
def two_subscribers(seen: Seen) -> None:
    for number in range(2):
        events = seen.events(f"subscriber {number}")
        assert chunks(events) == [str(chunk) for chunk in range(20)], f"subscriber {number}: {chunks(events)}"
        assert states(events) == ["completed"], f"subscriber {number}"


@_in(IN_1_0)
def a_subscriber_leaves(seen: Seen) -> None:
    staying = seen.events("staying")
    assert (chunks(staying), states(staying)) == (["a"], ["completed"])


@_in(IN_1_0)
def the_sender_leaves(seen: Seen) -> None:
    assert states(seen.events("stream", ended=False)) == ["submitted", "working"]
    assert artifact_texts(seen.task("finished", "completed")) == [["a"]]


@_in(IN_0_3)
def resubscribed(seen: Seen) -> None:
    assert [texts(seen.answer(f"again chunk {n}")["artifact"]["parts"]) for n in (1, 2)] == [["a"], ["b"]]
    for label in ("again", "stream"):
        events = seen.events(label)
        assert states(events) == ["completed"], f"{label}: {states(events)}"
    assert chunks(seen.events("stream")) == ["a", "b"]


@_in(IN_1_0, name="cancelled")
def cancelled_1_0(seen: Seen) -> None:
    seen.task("cancel", "canceled")
    seen.task("get", "canceled")
    seen.rejected("cancel done", "TASK_NOT_CANCELABLE")


@_in(IN_0_3)
def cancelled(seen: Seen) -> None:
    seen.task("cancel", "canceled")
    seen.task("get", "canceled")


@_in(IN_0_3)
def cancelled_while_asking(seen: Seen) -> None:
    seen.task("ask", "input-required", "what?")
    cancelled(seen)


@_in(IN_1_0)
def several_turns(seen: Seen) -> None:
    for label in ("ask", "get"):
        seen.task(label, "input-required", "which one?")
    seen.rejected("wrong context", "INVALID_PARAMS")
    events = seen.events("again", ended=False)
    assert states(events)[-2:] == ["working", "auth-required"], states(events)
    assert status_text(events[-1]) == "who are you?"
    seen.task("cancel", "canceled")
    seen.rejected("too late", "UNSUPPORTED_OPERATION")


@_in(IN_0_3, name="several_turns")
def several_turns_0_3(seen: Seen) -> None:
    for label in ("ask", "get"):
        seen.task(label, "input-required", "which one?")
    seen.task("again", "input-required", "and now?")
    events = seen.events("answer")
    assert (states(events)[-2:], chunks(events)) == (["working", "completed"], ["x"])
    after = [outcome for label, outcome in seen.lines if label == "get"][-1]
    assert (state(after), artifact_texts(after)) == ("completed", [["x"]])


@_in(IN_1_0)
def an_answer_completes(seen: Seen) -> None:
    asked = seen.task("ask", "input-required", "which one?")
    answered = seen.task("answer", "completed")
    assert (answered["id"], artifact_texts(answered)) == (asked["id"], [["x"]])
    other = seen.task("same context", "completed")
    assert other["contextId"] == asked["contextId"]
    assert other["id"] != asked["id"]


@_in(IN_1_0)
def push_configs(seen: Seen) -> None:
    made = [seen.answer(f"create {number}") for number in (1, 2)]
    assert [one["url"] for one in made] == [f"https://hook.example/{number}" for number in (1, 2)]
    assert made[1]["authentication"]["scheme"] == "Bearer"
    assert (seen.answer("get"), seen.answer("list")["configs"]) == (made[1], made)
    seen.answer("delete")
    seen.rejected("get deleted")
    assert seen.answer("list again")["configs"] == made[:1]


@_in(IN_0_3, name="push_configs")
def push_configs_0_3(seen: Seen) -> None:
    for label in ("set", "get"):
        config = seen.answer(label)["pushNotificationConfig"]
        assert (config["url"], config["token"]) == ("https://hook.example/p1", "t"), f"{label}: {config}"
        assert config["authentication"]["schemes"] == ["Bearer"], f"{label}: {config}"


@_in(IN_0_3)
def push_config_lists(seen: Seen) -> None:
    def urls(label: str) -> list[str]:
        return [one["pushNotificationConfig"]["url"] for one in seen.outcome(label)]

    assert urls("list") == ["https://hook.example/p1", "https://hook.example/p2"]
    assert "error" not in (seen.outcome("delete") or {})
    assert urls("list again") == ["https://hook.example/p2"]


@_in(IN_1_0, IN_0_3)
def extended_card(seen: Seen) -> None:
    assert [skill["name"] for skill in seen.answer("card")["skills"]] == ["Script", "More"]


@_in(IN_1_0)
def lists(seen: Seen) -> None:
    sent = [seen.answer(f"send {number}") for number in range(5)]
    pages = [seen.answer(f"page {number}") for number in range(3)]
    assert [len(page["tasks"]) for page in pages] == [2, 2, 1]
    found = [task["id"] for page in pages for task in page["tasks"]]
    assert found == [task["id"] for task in reversed(sent)]
    assert [bool(page["nextPageToken"]) for page in pages] == [True, True, False]
    assert {page["totalSize"] for page in pages} == {5}
    assert {state(task) for task in seen.answer("status")["tasks"]} == {"input-required"}
    assert artifact_texts(seen.answer("artifacts")["tasks"][0]) == [["4"]]
    assert not any(task.get("artifacts") for task in seen.answer("all")["tasks"])
    assert not any(task.get("history") for task in seen.answer("no history")["tasks"])
    assert [len(task["history"]) for task in seen.answer("history")["tasks"]] == [1] * 5
    assert not seen.answer("nothing after")["tasks"]
    assert len(seen.answer("everything after")["tasks"]) == 5


@_in(IN_1_0)
def bad_lists(seen: Seen) -> None:
    for label in ("token", "size 101", "size -1", "history -1"):
        seen.rejected(label, "INVALID_PARAMS")


@_in(IN_1_0, name="unknown_tasks")
def unknown_tasks_1_0(seen: Seen) -> None:
    unknown_tasks(seen)
    seen.refused("subscribe", "TASK_NOT_FOUND")
    for label in ("push create", "push get", "push list", "push delete"):
        seen.rejected(label, "TASK_NOT_FOUND")


@_in(IN_0_3)
def unknown_tasks(seen: Seen) -> None:
    for label in ("get", "cancel", "send"):
        seen.rejected(label, "TASK_NOT_FOUND")
    seen.refused("stream", "TASK_NOT_FOUND")


@_in(IN_1_0)
def ended_tasks(seen: Seen) -> None:
    seen.task("send", "completed")
    seen.refused("subscribe", "UNSUPPORTED_OPERATION")
    seen.rejected("send more", "UNSUPPORTED_OPERATION")
    seen.refused("stream more", "UNSUPPORTED_OPERATION")
    seen.rejected("cancel", "TASK_NOT_CANCELABLE")


@_in(IN_1_0)
def incomplete_requests(seen: Seen) -> None:
    # A part without content is forbidden by its schema, and no rule says that a server has to look.
    for label in ("nothing", "no parts", "no role", "no message id", "several", "negative history"):
        seen.rejected(label, "INVALID_PARAMS")
        seen.refused(f"stream {label}", "INVALID_PARAMS")


def _raises(reason: str) -> Check:
    def raises(seen: Seen) -> None:
        seen.rejected("send", reason, text="some words")
        seen.refused("stream", reason, text="some words")
        seen.fails_midway("midway", reason, text="some words")
        seen.fails("blocking", reason, text="some words")

    return raises


for _reason in RAISED:
    IN_1_0[f"raises_{_reason}"] = _raises(_reason)


@_in(IN_0_3)
def errors(seen: Seen) -> None:
    for reason in ("CONTENT_TYPE_NOT_SUPPORTED", "UNSUPPORTED_OPERATION", "INVALID_PARAMS"):
        seen.rejected(reason, reason, text="some words")
        # Without its text: the client of 0.3.26 does not read it over HTTP+JSON.
        seen.refused(f"stream {reason}", reason)
        seen.fails_midway(f"midway {reason}", reason, text="some words")


@_in(IN_1_0)
def crashes(seen: Seen) -> None:
    seen.rejected("send")
    seen.refused("stream")
    seen.fails("blocking")
    seen.fails_midway("midway")
