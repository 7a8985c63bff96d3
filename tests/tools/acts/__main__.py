"""A2A's conformance documents (ACTS) against agents over every binding: `make acts ACTS=DIR`.

.venv/bin/python -m tests.tools.acts DIR [--agent ours] [--agent guarded] [--agent sdk]

DIR holds the documents (`tests/tools/acts` of a2aproject/A2A, branch conformance-spec). They run with
`a2a-bridge conformance` against the demo server (`ours`) and an agent of the official SDK (`sdk`); those for which
an agent has to lack something, or to ask for credentials, against agent.py (`guarded`). expected.toml says which
tests fail or are skipped, and why. The exit code is 0 if the results are exactly these, 1 if not, and
2 if the documents did not run.
"""

import argparse
import json
import selectors
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.toml"
#: seconds until an agent is ready, and for all documents
START, RUN = 60.0, 1200.0
_BRIDGE = (sys.executable, "-m", "a2a_bridge")
_FLAGS = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")


class Served(NamedTuple):
    """An agent as served. keys: whether it asks for them. only: the beginning of its tests' ids."""

    command: tuple[str, ...]
    keys: bool = False
    only: tuple[str, ...] = ()


AGENTS: Mapping[str, Served] = {
    "ours": Served((*_BRIDGE, "server", *_FLAGS)),
    "guarded": Served(
        (*_BRIDGE, "serve", f"{HERE / 'agent.py'}:guarded", *_FLAGS, "--store", "memory://"),
        keys=True,
        only=("CARD-EXT", "CORE-CAP", "PUSH-CFG-004", "SEC-EXTCARD"),
    ),
    "sdk": Served((sys.executable, str(HERE / "sdk_agent.py"))),
}
#: whose fault a result is that is no pass
FAULTS = ("ours", "document", "agent")


class NotRunError(Exception):
    """The documents did not run."""


class Result(NamedTuple):
    """The result of a test over one binding."""

    agent: str
    transport: str
    id: str
    level: str
    #: pass, fail, skip or error
    result: str
    #: why, if it is no pass
    why: str


class Reason(NamedTuple):
    """result: expected, fail or skip. transport: empty for all. fault: one of FAULTS, if it fails."""

    agent: str
    id: str
    transport: str
    result: str
    fault: str
    why: str

    def is_about(self, one: Result) -> bool:
        return (self.agent, self.id) == (one.agent, one.id) and self.transport in ("", one.transport)


@contextmanager
def running(served: Served) -> Iterator[tuple[str, ...]]:
    """The flags of `conformance` for an agent while it runs. Raises NotRunError."""
    with tempfile.TemporaryDirectory() as folder:
        command, flags = served.command, tuple(word for id_ in served.only for word in ("--only", id_))
        if served.keys:
            file = str(Path(folder, "keys.json"))
            made = subprocess.run(
                (*_BRIDGE, "keys", "create", "--file", file, "--id", "tests"),
                capture_output=True,
                text=True,
                check=True,
                timeout=START,
            )
            command, flags = (*command, "--api-keys", file), (*flags, "--api-key", made.stdout.split()[-1])
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                with selectors.DefaultSelector() as selector:
                    selector.register(process.stdout, selectors.EVENT_READ)
                    line = process.stdout.readline() if selector.select(START) else ""
                words = dict(word.partition("=")[::2] for word in line.split())
                if "http" not in words:
                    raise NotRunError(f"{' '.join(command)} did not start")
                yield ("-a", words["http"], *flags)
            finally:
                process.terminate()


def run(agent: str, documents: Path) -> list[Result]:
    """The results over every binding, without those of tests for other bindings. Raises NotRunError."""
    with running(AGENTS[agent]) as flags:
        command = (*_BRIDGE, "conformance", *flags, "--suite", str(documents), "-o", "json")
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN)
        except subprocess.TimeoutExpired:
            raise NotRunError(f"the documents took more than {RUN:g} s") from None
    if done.returncode not in (0, 1) or not done.stdout:
        raise NotRunError(done.stderr.strip())
    return results(agent, json.loads(done.stdout))


def results(agent: str, report: Mapping[str, Any]) -> list[Result]:
    found = []
    for one in report["tests"]:
        why = "; ".join(one["problems"])
        if not (one["result"] == "skip" and why.startswith("for ")):  # a test for other bindings
            found.append(Result(agent, one["transport"], one["id"], one["level"], one["result"], why))
    return found


def expected(text: str) -> list[Reason]:
    """The reasons in expected.toml: `[AGENT.FAULT]`, `[all.skip]`, `"ID TRANSPORT"`. Raises ValueError."""
    found = []
    for agent, tables in tomllib.loads(text).items():
        for kind, reasons in tables.items():
            if kind not in (*FAULTS, "skip") or agent not in ("all", *AGENTS):
                raise ValueError(f"[{agent}.{kind}] is unknown")
            result, fault = ("skip", "") if kind == "skip" else ("fail", kind)
            for key, why in reasons.items():
                if not (isinstance(why, str) and why):
                    raise ValueError(f"{key!r} needs a reason")
                id_, _, transport = key.partition(" ")
                agents = [name for name, one in AGENTS.items() if not one.only] if agent == "all" else [agent]
                found += [Reason(one, id_, transport, result, fault, why) for one in agents]
    return found


def compared(reasons: Sequence[Reason], found: Sequence[Result]) -> list[str]:
    """A line for each difference between what is expected and the results of the same agents."""
    lines = []
    for one in found:
        known = [reason for reason in reasons if reason.is_about(one)]
        wanted = known[0].result if known else "pass"
        if len(known) > 1:
            lines.append(f"{one.agent} {one.transport} {one.id}: has {len(known)} reasons")
        elif one.result != wanted:
            lines.append(f"{one.agent} {one.transport} {one.id}: {one.result}, expected {wanted}: {one.why}")
    ran = {one.agent for one in found}
    return lines + [
        f"{reason.agent} {reason.id} {reason.transport}".rstrip() + ": not run"
        for reason in reasons
        if reason.agent in ran and not any(reason.is_about(one) for one in found)
    ]


def table(reasons: Sequence[Reason], found: Sequence[Result]) -> list[str]:
    """A Markdown table: a row for each agent and binding."""
    lines = [
        "| agent | binding | tests | pass | skip | fail: document | fail: agent | fail: ours | must: pass |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = dict.fromkeys((one.agent, one.transport) for one in found)
    for agent, transport in rows:
        of_row = [one for one in found if (one.agent, one.transport) == (agent, transport)]
        counts = Counter(one.result for one in of_row)
        faults = Counter(
            next((reason.fault for reason in reasons if reason.is_about(one)), "unknown")
            for one in of_row
            if one.result in ("fail", "error")
        )
        must = [one for one in of_row if one.level == "must" and one.result != "skip"]
        cells = [agent, transport, len(of_row), counts["pass"], counts["skip"]]
        cells += [faults["document"], faults["agent"], faults["ours"] + faults["unknown"]]
        cells.append(f"{sum(one.result == 'pass' for one in must)} of {len(must)}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.acts")
    parser.add_argument("documents", type=Path, help="the folder with *.acts.yaml")
    parser.add_argument("--agent", action="append", choices=list(AGENTS), help="one agent only")
    options = parser.parse_args(arguments)
    reasons = expected(EXPECTED.read_text(encoding="utf-8"))
    try:
        found = [one for agent in options.agent or AGENTS for one in run(agent, options.documents.absolute())]
    except NotRunError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(table(reasons, found)))
    for one in found:
        for reason in reasons:
            if one.result != "pass" and reason.is_about(one):
                print(f"  {one.agent} {one.transport} {one.id}: {reason.fault or 'skip'}: {reason.why}")
    differences = compared(reasons, found)
    for line in differences:
        print(f"  {line}")
    print("as expected" if not differences else f"{len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
