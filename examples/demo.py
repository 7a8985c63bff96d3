"""The bridge at work: agents that speak one version over one transport, called by clients of all of them.

    python examples/demo.py

It starts three agents written with the official SDK (sdk_agent.py), each with `a2a-bridge gateway` in front
of it:

1. one that speaks 1.0 over JSON-RPC: the same steps are run directly and through the gateway over all three
   transports, by the official client and by ours, and by ours in 0.3 and 0.2.5, too;
2. one that speaks 0.3 over JSON-RPC: the same once more;
3. one that speaks 1.0 over gRPC: a client of 0.3 sends it content that 1.0 has no members for, and gets the
   content back.

Last comes an agent of ours (counting_agent.py), which is killed while three clients read its streams, and
started again.

Then it prints whether all results are equal. Ids and times differ from run to run by nature and are not
compared.

Ends with 0 if everything is equal, with 1 if not, with 2 if something could not be started or is too slow.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from demo_clients import Rejected, official, ours
from demo_oddities import ODDITIES, at, there_and_back, written
from demo_steps import all_steps, in_words, unlike
from demo_survival import Story, kill_in_mid_stream
from demo_waits import TooSlow, together, within

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
VERSIONS = ("1.0", "0.3", "0.2.5")
CLIENTS = {"official": official, "our": ours}
#: clients that talk to an agent at the same time
AT_ONCE = 6
#: seconds for the start of a program, and for all calls of one client. There is no limit of the whole: a
#: machine with other work needs many times as long
START, CALLS = 180.0, 300.0
HERE = Path(__file__).parent
AGENT = (sys.executable, str(HERE / "sdk_agent.py"), "0")
GATEWAY = (sys.executable, "-m", "a2a_bridge", "gateway", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")


class Front(NamedTuple):
    """How a gateway is called: by whose client, in which version, over which transport."""

    version: str
    client: str
    binding: str


FRONTS = [Front("1.0", "official", binding) for binding in BINDINGS] + [
    Front(version, "our", binding) for version, binding in product(VERSIONS, BINDINGS)
]

Results = Mapping[str, Any]


class NotStarted(Exception):  # noqa: N818  a plain word for the output
    """A program ended, or was not ready in time."""


# ---------------------------------------------------------------- running


@asynccontextmanager
async def program(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running program, which is stopped at the end, and killed if it does not stop."""
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def addresses(title: str, process: asyncio.subprocess.Process) -> dict[str, str]:
    """The addresses in the `ready` line of a program. Raises NotStarted."""
    assert process.stdout is not None  # noqa: S101  a pipe, as requested
    async with within(START, f"the start of the {title}"):
        line = (await process.stdout.readline()).decode()
    if not line.startswith("ready "):
        raise NotStarted(f"the {title} did not start")
    return dict(item.split("=", 1) for item in line.split()[1:])


async def directly(agent: str, version: str) -> Results:
    """The responses of the agent without a gateway."""
    async with within(CALLS, "the calls of the agent itself"), official(agent, "JSONRPC") as client:
        return await all_steps(client, version)


async def through(gateway: str, version: str) -> dict[Front, Results]:
    """The responses through a gateway to an agent of a version, for operations that both versions have."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(front: Front) -> Results:
        step = f"the calls of {front.client} client over {front.binding} in {front.version}"
        async with (
            slots,
            within(CALLS, step),
            CLIENTS[front.client](gateway, front.binding, front.version) as client,
        ):
            # They sort in the same order as texts.
            return await all_steps(client, min(version, front.version))

    return dict(zip(FRONTS, await together(map(one, FRONTS)), strict=True))


async def demo() -> bool:
    started = time.monotonic()
    cells = (("JSONRPC", "1.0"), ("JSONRPC", "0.3"), ("GRPC", "1.0"))
    report = Report()
    async with AsyncExitStack() as stack:
        # All at once: most of the start of a program is the import of its modules.
        running = [await stack.enter_async_context(program(*AGENT, *cell)) for cell in cells]
        agents = [await addresses("agent", one) for one in running]
        targets = [agent.get("http") or agent["grpc"] for agent in agents]
        running = [await stack.enter_async_context(program(*GATEWAY, target)) for target in targets]
        gateways = [await addresses("gateway", one) for one in running]
        for number, (binding, version) in enumerate(cells[:2]):
            report.begins(number, binding, version, agents[number], gateways[number])
            direct = await directly(targets[number], version)
            bridged = await through(gateways[number]["http"], version)
            if number == 0:
                report.operations(direct, bridged)
            report.versions(direct, bridged, version)
        report.begins(2, *cells[2], agents[2], gateways[2])
        async with within(CALLS, "the message that comes back"):
            report.oddities(*await there_and_back(gateways[2]["http"]))
    with tempfile.TemporaryDirectory() as folder:
        report.survival(await kill_in_mid_stream(program, addresses, folder, BINDINGS))
    return report.ends(time.monotonic() - started)


# ---------------------------------------------------------------- report


class Report:
    """Prints results, and counts those that differ."""

    def __init__(self) -> None:
        self._compared = 0
        self._wrong: list[str] = []

    def begins(
        self, number: int, binding: str, version: str, agent: Mapping[str, str], gateway: Mapping[str, str]
    ) -> None:
        print(f"\n{number + 1}. an agent that speaks {version} over {binding}, and nothing else\n")
        for title, found in (("agent  ", agent), ("gateway", gateway)):
            print(f"{title}: ready", *(f"{name}={address}" for name, address in found.items()))

    def operations(self, direct: Results, bridged: Mapping[Front, Results]) -> None:
        """The clients of 1.0, step by step."""
        rows = []
        for step, expected in direct.items():
            cells = []
            for binding in BINDINGS:
                fronts = [Front("1.0", name, binding) for name in CLIENTS]
                lines = [unlike({step: expected}, bridged[front], older=False)[step] for front in fronts]
                cells.append(" ".join("✗" if found else "✓" for found in lines))
            rows.append([step, in_words(expected), *cells])
        table(["operation", "the agent's answer", *BINDINGS], rows, words=2)
        print("\n✓ equal to what the agent answers when called directly, by the official client and by ours")

    def versions(self, direct: Results, bridged: Mapping[Front, Results], version: str) -> None:
        """The number of equal results, by version and transport of the clients. version: of the agent."""
        rows: dict[str, list[str]] = {}
        for front, results in bridged.items():
            older = min(version, front.version) != "1.0"
            found = unlike(direct, results, older=older)
            good = sum(not lines for lines in found.values())
            mark = "✓" if good == len(found) else "✗"
            rows.setdefault(f"{front.version}, {front.client} client", []).append(
                f"{good} of {len(found)} {mark}"
            )
            self._compared += len(found)
            self._wrong += [
                f"{step}, {front.binding} {front.version}, {front.client} client, agent of {version}: {line}"
                for step, lines in found.items()
                for line in lines
            ]
        table(["results equal", *BINDINGS], [[name, *cells] for name, cells in rows.items()], words=1)

    def oddities(self, sent: Any, back: Any) -> None:
        """The content of a message of 0.3, as it was sent and as it came back."""
        rows = []
        wrong = []
        for name, path in ODDITIES.items():
            sent_value, received_value = at(sent, path), at(back, path)
            rows.append([name, sent_value, received_value, "✓" if sent_value == received_value else "✗"])
            if sent_value != received_value:
                wrong.append(f"{name}: sent {sent_value}, came back {received_value}")
        table(["a client of 0.3 over JSONRPC says", "sent", "came back", "same"], rows, words=3)
        if sent == back:
            print("\n✓ the whole message came back as it was sent, by way of an agent of 1.0 over gRPC")
        elif not wrong:
            wrong.append(f"elsewhere: sent {written(sent)}, came back {written(back)}")
        self._compared += 1
        self._wrong += wrong

    def survival(self, stories: Sequence[Story]) -> None:
        """The events that the callers of a killed agent received."""
        print("\n4. an agent that keeps its tasks, killed with SIGKILL while clients read, and started again")
        rows = []
        for story in stories:
            count = f"{story.before} events, then {len(story.ids) - story.before}"
            good = story.whole and story.before < len(story.ids)
            rows.append([f"a stream over {story.binding}", count, "✓" if good else "✗"])
            self._compared += 1
            if not good:
                self._wrong.append(f"a stream over {story.binding} has the events {', '.join(story.ids)}")
        table(["before the kill, and after", "seen", "each once, in order"], rows, words=2)

    def ends(self, seconds: float) -> bool:
        """Prints the verdict; returns whether all results are equal."""
        print()
        for line in self._wrong:
            print(f"✗ {line}")
        verdict = "all are equal" if not self._wrong else f"there are {len(self._wrong)} differences"
        print(f"{self._compared} results were compared, {verdict} ({seconds:.1f} s)")
        return not self._wrong


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, words: int) -> None:
    """Prints columns, the first `words` of them to the left and the others in the middle."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    print()
    for row in (header, ["─" * width for width in widths], *rows):
        texts = [text.ljust(width) for text, width in zip(row[:words], widths, strict=False)]
        marks = [text.center(width) for text, width in zip(row[words:], widths[words:], strict=True)]
        print("  ".join(texts + marks).rstrip())


def main() -> int:
    # In the last part an agent is unreachable for a while; nine warnings about it are not useful.
    logging.getLogger("a2a_bridge").setLevel(logging.ERROR)
    try:
        return 0 if asyncio.run(demo()) else 1
    except Rejected as error:
        print(f"✗ {error}")
        return 1
    except NotStarted as error:
        print(f"demo: {error}", file=sys.stderr)
    except TooSlow as error:
        print(f"demo: {error.step} took longer than {error.seconds:g} s.", file=sys.stderr)
        print("demo: a machine with other work may need longer: START and CALLS in demo.py.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
