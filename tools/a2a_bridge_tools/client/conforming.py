"""`conformance`: runs the tests of documents over each binding, and reports.

Rules (ACTS 12):
1. Tests share nothing; each starts with its own variables. A test whose preconditions the card does not meet,
   or that needs what this runner cannot do, is skipped with the reason.
2. `fail` is a wrong response of the agent; `error` is a document that cannot be run. The tests after it run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import typer

from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import code_of, data, document
from a2a_bridge.cli.values import Exit
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import text
from a2a_bridge_tools.client.acts_documents import documents_of, each_test, entries
from a2a_bridge_tools.client.acts_steps import STEP, FailedError, LastResponse, SkippedError, TestRun
from a2a_bridge_tools.client.flags import ConformanceFlags
from a2a_bridge_tools.client.reaching import (
    Session,
    choose_interfaces,
    parse_transports,
    refuse_equivalents,
    run,
)

_NAMES = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest", "GRPC": "grpc"}
_LEVELS = ("must", "should", "may")


@dataclass(slots=True)
class Outcome:
    """The result of a test: pass, fail, skip or error. step: the one at fault."""

    id: str
    name: str
    level: str
    transport: str
    result: str = "pass"
    step: str = ""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def check_conformance(context: typer.Context, flags: ConformanceFlags) -> None:
    """Runs the documents. Raises typer.Exit, typer.BadParameter."""
    refuse_equivalents(flags, "conformance makes several")
    tests = list(each_test(list(documents_of(flags.suite)), flags.only or ()))
    if not tests:
        raise typer.BadParameter("there is no such test", param_hint="--only" if flags.only else "--suite")
    # An agent in code is served, and bindings of other packages are not those of the documents.
    flags = replace(flags, transport=flags.transport or list(_NAMES))
    outcomes: list[Outcome] = []

    async def bindings(session: Session) -> list[str]:
        found = choose_interfaces(session.card, parse_transports(flags), flags.a2a_version)
        return list(dict.fromkeys(one.interface.protocol_binding for one in found))

    for binding in run(context, flags, bindings):
        one, last = replace(flags, transport=[binding]), LastResponse()

        async def check(session: Session, binding: str = binding, last: LastResponse = last) -> None:
            for number, test in enumerate(tests):
                outcomes.append(await _outcome(session, test, binding, last))
                if flags.output is Output.TEXT:
                    _show(outcomes[-1], first=not number)

        run(context, one, check, last)
    _report(outcomes, flags)
    bad = any(one.result in ("fail", "error") and one.level == "must" for one in outcomes)
    raise typer.Exit(Exit.FAILURE if bad else Exit.OK)


async def _outcome(session: Session, test: Mapping[str, Any], binding: str, last: LastResponse) -> Outcome:
    outcome = Outcome(str(test.get("id")), str(test.get("name")), _LEVELS[0], _NAMES[binding])
    started = time.monotonic()
    step: Mapping[str, Any] = {}
    try:
        outcome.level = _level(test)
        _check_preconditions(session.card, test, _NAMES[binding])
        running = TestRun(session, test, binding, last)
        for step in entries(test, "steps"):
            await running.step(step)
        step = {}
        running.check(test.get("assertions", ()))
    except SkippedError as skipped:
        outcome.result, outcome.problems = "skip", [str(skipped)]
    except FailedError as failed:
        outcome.result, outcome.problems = "fail", list(failed.args)
    except TimeoutError:
        outcome.result, outcome.problems = "fail", [f"no response in {STEP:g} s"]
    except A2AError as error:
        outcome.result, outcome.problems = "fail", [f"{code_of(error)}: {error.message}"]
    except Exception as error:  # noqa: BLE001  a document can be wrong in any way
        outcome.result, outcome.problems = "error", [f"{type(error).__name__}: {error}"]
    outcome.step = str(step.get("id", "")) if outcome.problems else ""
    outcome.seconds = time.monotonic() - started
    return outcome


def _level(test: Mapping[str, Any]) -> str:
    """The level of a test. Raises ValueError for one whose results would not be counted."""
    level = str(test.get("level", _LEVELS[0])).lower()
    if level not in _LEVELS:
        raise ValueError(f"the level {level} is none of {', '.join(_LEVELS)}")
    return level


def _check_preconditions(card: hub.AgentCard, test: Mapping[str, Any], transport: str) -> None:
    wanted = test.get("preconditions", {})
    if special := test.get("runner_requirements"):
        raise SkippedError(f"this runner has no {', '.join(special)}")
    for listed in (test.get("transport"), wanted.get("transport")):
        if listed and transport not in listed:
            raise SkippedError(f"for {', '.join(listed)} only")
    shown = V1_0.card.encode(card)
    able: Any = shown.get("capabilities", {})
    for name, value in wanted.get("capabilities", {}).items():
        if able.get(name, False) != value:
            raise SkippedError(f"the card does not say {name}: {value}")
    protected = bool(card.security_schemes and card.security_requirements)
    if wanted.get("authentication", protected) != protected:
        raise SkippedError(f"the card does not say authentication: {wanted['authentication']}")
    skills = {one.id for one in card.skills}
    if any(one["id"] not in skills for one in wanted.get("skills", ())):
        raise SkippedError("the card has no such skill")
    extensions = {one.uri for one in card.capabilities.extensions}
    if not extensions.issuperset(wanted.get("extensions", ())):
        raise SkippedError("the card has no such extension")


def _show(one: Outcome, *, first: bool) -> None:
    if first:
        data(text.field("Transport", one.transport), end="")
    words = f"{one.id} {one.name}" + (f" ({'; '.join(one.problems)})" if one.problems else "")
    data(text.field(one.result.capitalize(), words), end="")


def _report(outcomes: Sequence[Outcome], flags: ConformanceFlags) -> None:
    summary = {}
    for level in _LEVELS:
        counts = Counter(one.result for one in outcomes if one.level == level)
        summary[level] = {name: counts[name] for name in ("pass", "fail", "skip", "error")}
    if flags.output is Output.TEXT:
        for level, row in summary.items():
            done = row["pass"] + row["fail"] + row["error"]
            extra = f"{row['fail'] + row['error']} failed, {row['skip']} skipped"
            data(text.field(level.capitalize(), f"{row['pass']}/{done} passed ({extra})"), end="")
        return
    tests = [
        {
            "id": one.id,
            "name": one.name,
            "level": one.level,
            "transport": one.transport,
            "result": one.result,
            "step": one.step or None,
            "problems": one.problems,
            "milliseconds": round(one.seconds * 1000, 1),
        }
        for one in outcomes
    ]
    document(
        {
            "conformant": not any(summary["must"][name] for name in ("fail", "error")),
            "summary": summary,
            "tests": tests,
        }
    )
