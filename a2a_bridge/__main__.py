"""The command `a2a-bridge`, also as `python -m a2a_bridge`."""

import sys

from a2a_bridge.core.extras import MissingExtraError, load


def main() -> None:
    """Runs the command; without its extra, says what to install."""
    try:
        load("typer", "server")
    except MissingExtraError as error:
        print(f"error: {error.text}\n  try: {error.remedy}", file=sys.stderr)  # noqa: T201  there is no output.py
        raise SystemExit(2) from None
    from a2a_bridge.cli import main as command

    command()


if __name__ == "__main__":
    main()
