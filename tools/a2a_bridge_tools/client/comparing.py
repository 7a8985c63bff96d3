"""`compare`: the same message over every interface of a card, and whether the responses are identical.

Rules:
1. Every interface and version is called, those below 1.0 too: to compare is to ask for them.
2. A difference that a version cannot help names the rule of `docs/explanation/versions.md` that says so.
3. A record has each message once, so that `--replay` sends it once, and the frames of every interface.

Results are compared in a canonical form, and not as bytes:
1. An id becomes `<id 1>`, `<id 2>` … in order of appearance, wherever it appears: the relations between ids
   are compared, and not the ids.
2. A timestamp becomes `<time>`; only its presence is compared.
3. Texts that differ only in values that look generated (UUIDs, long runs of hexadecimal digits, random
   letters and digits) are reported separately from real differences.
4. Metadata that the bridge uses to carry content of other versions is left out.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import typer

from a2a_bridge.app import runtime
from a2a_bridge.app.peer import request_of
from a2a_bridge.bindings.binding import DialOptions, names
from a2a_bridge.cards import Candidate, select
from a2a_bridge.cli.connect import version_of
from a2a_bridge.cli.environment import Environment
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import data, document, explain, failure, print_message
from a2a_bridge.cli.values import Exit, usage_error, use_bridge_key
from a2a_bridge.codec import encoder
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.dialects import annotation, by_version, unmapped
from a2a_bridge.gateway.cards import rewrite
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import reaching
from a2a_bridge_tools.client.flags import CompareFlags
from a2a_bridge_tools.client.parts import from_stdin
from a2a_bridge_tools.client.recording import Recorder, add_observer, calls_of, lines_of, record_to
from a2a_bridge_tools.client.text import state_name

#: in a record, as the playground calls the frames of an interface
_HOP = "client"
_encode_answer = encoder(hub.SendMessageResponse)
_encode_event = encoder(hub.StreamResponse)


@dataclass(slots=True)
class InterfaceAnswer:
    """The response of one interface. task: as far as the events describe it. different: its differences from
    the first response. generated: those in values that look generated.
    """

    interface: hub.AgentInterface
    seconds: float = 0.0
    events: list[Any] = field(default_factory=list)
    state: str = "message"
    error: A2AError | None = None
    different: list[str] = field(default_factory=list)
    generated: list[str] = field(default_factory=list)

    @property
    def result(self) -> Any:
        """The response or the error, in a form that can be compared."""
        return canonical(self.events if self.error is None else [_describe_failure(self.error)])


def compare_interfaces(context: typer.Context, text: str | None, flags: CompareFlags) -> None:
    """Calls all interfaces, one after the other, and prints the comparison. Raises typer.Exit."""
    reaching.refuse_equivalents(flags, "compare makes several")
    if flags.endpoint and (not flags.agent_card or "endpoint" in Environment.of(context).order):
        hint = "names one interface, and compare needs a card, which lists them all: -a REF"
        raise usage_error("--endpoint", hint)
    use_bridge_key(flags.bridge_key)
    calls = _calls(text, flags)
    given, options = reaching.Credentials.of(flags), reaching.client_options(flags)
    sends = given.are_sent(options)
    with reaching.report_errors(context, flags, credentials=sends), record_to(flags.record) as recorder:
        raise typer.Exit(asyncio.run(_compare(calls, flags, given, options, recorder)))


#: an operation and its request
Asked = tuple[ops.Operation[Any, Any], Any]


def _calls(text: str | None, flags: CompareFlags) -> list[Asked]:
    """What to send: the text, or the calls of a record. Raises typer.BadParameter."""
    if (text is None) is (flags.replay is None):
        raise usage_error("TEXT", "either TEXT or --replay says what to send")
    if flags.replay is None:
        content = from_stdin("TEXT") if text == "-" else text
        return [(ops.SEND_STREAMING_MESSAGE if flags.stream else ops.SEND_MESSAGE, request_of((content,)))]
    try:
        with flags.replay.open("rb") as file:
            calls = calls_of(lines_of(file))
    except OSError as error:
        raise usage_error("--replay", f"{flags.replay} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise usage_error("--replay", f"{flags.replay}: {error}") from None
    # A message creates a task for each interface; further calls name the task of the record, which is gone.
    sends = [one for one in calls if one[0] in ops.SEND]
    if not sends:
        raise usage_error("--replay", f"{flags.replay} has no message that was sent")
    return sends


async def _compare(
    calls: Sequence[Asked],
    flags: CompareFlags,
    given: reaching.Credentials,
    options: DialOptions,
    recorder: Recorder | None,
) -> Exit:
    target = reaching.reference(flags.agent_card)
    async with asyncio.timeout(flags.timeout), reaching.open_reference(target, options) as (card, found):
        candidates = select(card, known=names(), version=version_of(flags.a2a_version))
        wanted = reaching.parse_transports(flags)
        candidates = [one for one in candidates if not wanted or one.interface.protocol_binding in wanted]
        if not candidates:
            text = f"the card offers no {' or '.join(wanted)}"
            raise A2AError(Reason.UNSUPPORTED_OPERATION, text, blame=Blame.PEER)
        given = reaching.with_stored_token(given, found, candidates)
        dialling, secrets = reaching.with_credentials(card, found, given, flags)
        if recorder is not None:
            recorder.secrets = secrets
        extensions = reaching.extensions_of(card, flags)
        ends = []
        for asked in calls:
            if recorder is not None:
                recorder.call(_HOP, Call(*asked, CallContext()))
            answers = [await _ask(card, one, dialling, asked, extensions, recorder) for one in candidates]
            ends.append(_show(answers, flags.output))
    return max(ends)


async def _ask(
    card: hub.AgentCard,
    one: Candidate,
    options: DialOptions,
    asked: Asked,
    extensions: tuple[str, ...],
    recorder: Recorder | None,
) -> InterfaceAnswer:
    answer = InterfaceAnswer(one.interface)
    if options.frame_observer is not None:
        print_message(f"— {_cell(one.interface)} {one.interface.url}", "bold")
    if recorder is not None:
        observe = recorder.observer(_HOP, cell=_cell(one.interface))
        options = add_observer(options, observe)
    source = rewrite(card, [one.interface])
    async with runtime.connect(source, options=one.dial_options(options)) as peer:
        started = time.monotonic()
        try:
            await _send(reaching.Session(peer, card, (), extensions=extensions), asked, answer)
        except A2AError as error:
            answer.error = error
        answer.seconds = time.monotonic() - started
    return answer


async def _send(session: reaching.Session, asked: Asked, answer: InterfaceAnswer) -> None:
    operation, recorded = asked
    request = hub.SendMessageRequest()
    request.CopyFrom(recorded)
    request.message.message_id = str(uuid4())  # agents may know the id of each message that they had
    if operation is ops.SEND_MESSAGE:
        response = await session.peer.send_message(request, session.context)
        answer.events.append(_encode_answer(response))
        if response.HasField("task"):
            answer.state = state_name(response.task.status.state)
        return
    async with aclosing(session.peer.events(request, False, session.context)) as events:
        async for event in events:
            message = event.message
            answer.events.append(_encode_event(message))
            if message.HasField("task"):
                answer.state = state_name(message.task.status.state)
            elif message.HasField("status_update"):
                answer.state = state_name(message.status_update.status.state)


def rule_of(path: str, *interfaces: hub.AgentInterface) -> str:
    """The rule of a version that explains a difference at a path; empty if there is none."""
    plain = re.sub(r"\[\d+\]", "", path).strip(".")
    for one in interfaces:
        dialect = by_version(one.protocol_version)
        for loss in dialect.losses if dialect is not None else ():
            member = loss.path.partition(".")[2]
            fits = not loss.bindings or one.protocol_binding in loss.bindings
            if member and fits and (plain == member or plain.endswith(f".{member}")):
                return f"{one.protocol_version}: {loss.path}: {loss.reason}"
    return ""


def _show(answers: Sequence[InterfaceAnswer], output: Output) -> Exit:
    first = answers[0]
    expected = first.result
    for answer in answers[1:]:
        found, real = compare(expected, answer.result)
        answer.different = [_explain(one, first, answer) for one in found] if real else []
        answer.generated = [] if real else [str(one) for one in found]
    if output is Output.JSON:
        same = not any(one.different or one.generated for one in answers)
        document({"identical": same, "answers": [_tree(a) for a in answers]})
    else:
        _print(answers)
    failed = next((answer.error for answer in answers if answer.error is not None), None)
    if failed is not None:
        return failure(failed, failed.message).exit
    return Exit.FAILURE if any(answer.different for answer in answers) else Exit.OK


def _explain(one: Difference, first: InterfaceAnswer, other: InterfaceAnswer) -> str:
    rule = rule_of(one.path, first.interface, other.interface)
    return f"{one} ({rule})" if rule else str(one)


def _print(answers: Sequence[InterfaceAnswer]) -> None:
    width = max(len(_cell(answer.interface)) for answer in answers)
    verdicts = max(len(_verdict(answer)) for answer in answers)
    for number, answer in enumerate(answers):
        cells = [
            _cell(answer.interface).ljust(width),
            "✓" if answer.error is None else "✗",
            _short(answer).ljust(26),
            ("" if number == 0 else _verdict(answer)).ljust(verdicts),
            f"{answer.seconds * 1000:.0f} ms",
        ]
        data("  ".join(cells))
    for answer in answers:
        for line in answer.different:
            print_message(f"{_cell(answer.interface)}: {line}", "red")
        for line in answer.generated:
            print_message(f"{_cell(answer.interface)}: generated: {line}", "dim")
        if answer.error is not None:
            print_message(f"{_cell(answer.interface)}: {explain(answer.error)}", "red")


def _verdict(answer: InterfaceAnswer) -> str:
    if answer.different:
        return "different"
    return "equal but for generated values" if answer.generated else "identical"


def _cell(interface: hub.AgentInterface) -> str:
    return f"{interface.protocol_binding} {interface.protocol_version}"


def _short(answer: InterfaceAnswer) -> str:
    """A response in two or three words."""
    if answer.error is not None:
        return answer.error.name
    return answer.state if len(answer.events) == 1 else f"{answer.state}, {len(answer.events)} events"


def _describe_failure(error: A2AError) -> dict[str, Any]:
    return failure(error, error.message).document


def _tree(answer: InterfaceAnswer) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "binding": answer.interface.protocol_binding,
        "version": answer.interface.protocol_version,
        "url": answer.interface.url,
        "milliseconds": round(answer.seconds * 1000, 1),
        "identical": not (answer.different or answer.generated),
    }
    if answer.generated:
        tree["generated"] = answer.generated
    if answer.different:
        tree["different"] = answer.different
    return tree | (_describe_failure(answer.error) if answer.error is not None else {"events": answer.events})


#: a member that is not there
ABSENT: Any = type("_Absent", (), {"__repr__": lambda _: "absent"})()
_CARRIED = frozenset({unmapped.KEY, annotation.FINAL, annotation.SYNTHESISED})
ID_MEMBERS = frozenset({"id", "taskId", "contextId", "messageId", "artifactId"})
TIME_MEMBERS = frozenset({"timestamp", "createdAt", "lastModified"})


def canonical(tree: Any) -> Any:
    """A JSON tree with ids and times replaced. Members called `id` count only where they hold text."""
    return _walk(tree, _Names(), "")


#: characters from which on an id is looked for in texts, and how many ids are looked for one by one
_LONG, _FEW = 8, 16


class _Names:
    """The ids of a tree so far, with the names that they get."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        #: the long ones by their last characters, because ids of one time begin alike; with their numbers
        self._long: dict[str, list[tuple[int, str]]] = {}

    def of(self, id_: str) -> str:
        """The name of an id."""
        name = self._names.get(id_)
        if name is None:
            number = len(self._names) + 1
            name = self._names[id_] = f"<id {number}>"
            if len(id_) >= _LONG:
                self._long.setdefault(id_[-_LONG:], []).append((number, id_))
        return name

    def put_into(self, text: str) -> str:
        """A text with the names of the long ids that it mentions."""
        ends = set(self._long)
        if len(ends) > _FEW:
            # Not each id in each text: that is a square.
            ends = {text[at : at + _LONG] for at in range(len(text) - _LONG + 1)} & self._long.keys()
        for _, known in sorted(one for end in ends for one in self._long[end]):
            if known in text:
                text = text.replace(known, self._names[known])
        return text


def _walk(tree: Any, names: _Names, member: str) -> Any:
    if isinstance(tree, Mapping):
        return {
            key: _walk(value, names, key)
            for key, value in sorted(tree.items())
            if not (key == "metadata" and isinstance(value, Mapping) and value and value.keys() <= _CARRIED)
            and key not in _CARRIED
        }
    if isinstance(tree, Sequence) and not isinstance(tree, (str, bytes)):
        return [_walk(item, names, member) for item in tree]
    if isinstance(tree, str) and tree:
        if member in ID_MEMBERS:
            return names.of(tree)
        if member in TIME_MEMBERS:
            return "<time>"
        # An agent can mention an id elsewhere, for example in the text of an error.
        return names.put_into(tree)
    return tree


#: UUIDs; runs of hexadecimal digits; runs of letters and digits of which there are some of both
_GENERATED = re.compile(
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|(?<![0-9A-Za-z])(?=[0-9A-Za-z]*[0-9])(?:[0-9a-fA-F]{8,}|(?=[0-9A-Za-z]*[A-Za-z])[0-9A-Za-z]{12,})(?![0-9A-Za-z])"
)


def without_generated(tree: Any) -> Any:
    """The tree with `<generated>` in place of the parts of texts that look generated."""
    if isinstance(tree, Mapping):
        return {key: without_generated(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [without_generated(item) for item in tree]
    return _GENERATED.sub("<generated>", tree) if isinstance(tree, str) else tree


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two trees differ. path: such as `[0].task.status`; `whole` for the trees themselves."""

    path: str
    this: str
    that: str

    def __str__(self) -> str:
        return f"{self.path}: {self.this} ≠ {self.that}"


def differences(left: Any, right: Any, path: str = "") -> list[Difference]:
    """The differences of two canonical trees; empty if they are equal."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        keys = sorted(set(left) | set(right))
        return _join(
            differences(left.get(key, ABSENT), right.get(key, ABSENT), f"{path}.{key}") for key in keys
        )
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return _join(
            differences(one, other, f"{path}[{index}]")
            for index, (one, other) in enumerate(zip(left, right, strict=True))
        )
    if left == right and isinstance(left, bool) is isinstance(right, bool):
        return []
    return [Difference(path.removeprefix(".") or "whole", _format(left), _format(right))]


def compare(left: Any, right: Any) -> tuple[list[Difference], list[Difference]]:
    """The differences of two canonical trees: all of them, and those without generated values."""
    found = differences(left, right)
    return found, differences(without_generated(left), without_generated(right)) if found else []


def _join(parts: Iterable[list[Difference]]) -> list[Difference]:
    return [one for part in parts for one in part]


def _format(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"
