"""`call --binding all`: the same message over every interface of a card, and whether the answers are
identical.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge import runtime
from a2a_bridge.bindings import DialOptions, names
from a2a_bridge.cards import select
from a2a_bridge.cli.canonical import canonical, differences, without_generated
from a2a_bridge.cli.connect import addressed, named
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.message import CallOptions, Outgoing, answers_of, exit_of, followed, tree_of
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import data, document, error_document, exit_code, explain, print_message
from a2a_bridge.cli.printing import state_name
from a2a_bridge.cli.target import Target
from a2a_bridge.core.errors import A2AError
from a2a_bridge.gateway import rewrite
from a2a_bridge.pb import lf_a2a_v1 as hub


@dataclass(slots=True)
class InterfaceAnswer:
    """The answer of one interface. task: as far as the events describe it. different: its differences from
    the first answer. generated: those in values that look generated.
    """

    interface: hub.AgentInterface
    seconds: float = 0.0
    events: list[Any] = field(default_factory=list)
    task: hub.Task | None = None
    error: A2AError | None = None
    different: list[str] = field(default_factory=list)
    generated: list[str] = field(default_factory=list)

    @property
    def result(self) -> Any:
        """The answer or the error, in a form that can be compared."""
        return canonical(self.events if self.error is None else [error_document(self.error)])


async def compare(target: Target, outgoing: Outgoing, call_options: CallOptions) -> Exit:
    """Calls all interfaces, one after the other, and prints the comparison."""
    async with addressed(target, call_options.dial) as (card, options):
        return await _compare(card, outgoing, call_options, named(target, options))


async def _compare(
    card: hub.AgentCard, outgoing: Outgoing, call_options: CallOptions, options: DialOptions
) -> Exit:
    candidates = select(card, known=names(), version=call_options.version)
    answers = [
        await _ask(card, one.interface, outgoing, call_options, one.dial_options(options))
        for one in candidates
    ]
    for answer in answers[1:]:
        found = differences(answers[0].result, answer.result)
        real = differences(without_generated(answers[0].result), without_generated(answer.result))
        answer.different = found if real else []
        answer.generated = [] if real else found
    if call_options.output is Output.JSON:
        document(
            {
                "identical": not any(one.different or one.generated for one in answers),
                "answers": [_tree(a) for a in answers],
            }
        )
    else:
        _print(answers)
    return _exit(answers)


async def _ask(
    card: hub.AgentCard,
    interface: hub.AgentInterface,
    outgoing: Outgoing,
    call_options: CallOptions,
    options: DialOptions,
) -> InterfaceAnswer:
    answer = InterfaceAnswer(interface)
    if options.frame_observer is not None:
        print_message(f"— {_cell(interface)} {interface.url}", "bold")
    async with runtime.connect(rewrite(card, [interface]), options=options) as peer:
        started = time.monotonic()
        try:
            async with aclosing(answers_of(peer, outgoing, call_options)) as answers:
                async for one in answers:
                    answer.events.append(tree_of(one))
                    answer.task = followed(answer.task, one)
        except A2AError as error:
            answer.error = error
        answer.seconds = time.monotonic() - started
    return answer


def _print(answers: list[InterfaceAnswer]) -> None:
    width = max(len(_cell(answer.interface)) for answer in answers)
    verdicts = max(len(_verdict(answer)) for answer in answers)
    for number, answer in enumerate(answers):
        verdict = "" if number == 0 else _verdict(answer)
        cells = [
            _cell(answer.interface).ljust(width),
            "✓" if answer.error is None else "✗",
            _short(answer).ljust(26),
            verdict.ljust(verdicts),
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
    """An answer in two or three words."""
    if answer.error is not None:
        return answer.error.name
    state = "message" if answer.task is None else state_name(answer.task.status.state)
    return state if len(answer.events) == 1 else f"{state}, {len(answer.events)} events"


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
    if answer.error is not None:
        return tree | error_document(answer.error)
    return tree | {"events": answer.events}


def _exit(answers: list[InterfaceAnswer]) -> Exit:
    failed = next((answer.error for answer in answers if answer.error is not None), None)
    if failed is not None:
        return exit_code(failed)
    if any(answer.different for answer in answers):
        return Exit.PROTOCOL
    # All are equal, so the first one is enough.
    return exit_of(answers[0].task)
