"""Kills a server again and again, and reports losses: `make crash`. The exit code is 1 after a loss."""

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.durability.rounds import Trial
from tests.durability.serving import Stage
from tests.durability.webhook import hook
from tests.postgres import Postgres

#: allows notifications to the webhook of a test, and idempotent sends
PUSHING = ("--push-allow", "127.0.0.1")
IDEMPOTENT = ("--idempotent-sends",)


@asynccontextmanager
async def trial(
    store: str,
    seed: int,
    folder: Path,
    *,
    resumes: bool = True,
    idempotent: bool = True,
    push: bool = True,
    database: Postgres | None = None,
) -> AsyncIterator[Trial]:
    """A test on a store, with all features except those that are switched off here."""
    journal = folder / "journal"
    environment = {"TRIALS_JOURNAL": str(journal), "TRIALS_RESUMES": str(int(resumes))}
    flags = (*(PUSHING if push else ("--no-push",)), *(IDEMPOTENT if idempotent else ()))
    async with hook() as posts:
        yield Trial(
            Stage(store, flags, environment),
            seed,
            journal,
            idempotent=idempotent,
            resumes=resumes,
            hook=posts if push else None,
            database=database,
        )


async def run(
    arguments: argparse.Namespace, folder: Path, store: str, database: Postgres | None = None
) -> int:
    began = time.monotonic()

    told = 0

    def report(number: int) -> None:
        nonlocal told
        wrong = len(made.ledger.wrong)
        for line in made.ledger.wrong[told:]:
            print(f"WRONG {line}", file=sys.stderr)
        told = wrong
        print(
            f"round {number + 1}: {len(made.ledger.seen)} tasks, {made.ledger.events} events shown, "
            f"{made.totals['compared']} compared, {wrong} wrong, {time.monotonic() - began:.0f} s",
            file=sys.stderr,
        )

    switched = not arguments.plain
    async with trial(
        store, arguments.seed, folder, resumes=switched, idempotent=switched, push=switched, database=database
    ) as made:
        wrong = await made.run(arguments.rounds, report)
    for name, count in sorted(made.totals.items()):
        print(f"{count:8} {name}")
    if made.recoveries:
        print(
            f"recovered within {statistics.median(made.recoveries):.2f} s (median), "
            f"{max(made.recoveries):.2f} s (longest)"
        )
    for line in wrong[:50]:
        print(f"WRONG {line}")
    print(f"seed {arguments.seed}: {len(wrong)} wrong in {made.totals['killed']} kills")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.durability.crash")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--store", choices=["sqlite", "postgresql", "memory"], default="sqlite")
    parser.add_argument("--plain", action="store_true", help="no resuming, no pushing, no idempotent sends")
    parser.add_argument("--folder", type=Path, help="an empty one, to keep the database and the journal in")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = arguments.folder or Path(place)
        if arguments.store == "postgresql":
            # grpcio's handlers for forks crash the commands that stop and start the database.
            os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
            from tests.durability.databases import filled, postgres

            with postgres() as server:
                return asyncio.run(run(arguments, folder, filled(server), server))
        store = f"sqlite:///{folder / 'trial.db'}" if arguments.store == "sqlite" else "memory://"
        return asyncio.run(run(arguments, folder, store))


if __name__ == "__main__":
    raise SystemExit(main())
