"""The output of the commands: data on stdout, messages and errors on stderr, and an exit code.

Rules:
1. stdout has the result and nothing else: with `-o json` one document, or one per line for a stream.
2. An error message has the cause and, if there is one, the next command to try.
3. Colours are used only on a terminal, and if NO_COLOR is not set.
4. A line of progress on stderr is wiped before anything else is printed.
5. The functions here show control characters as escapes, on both streams and in the log: agents, providers
   and files choose texts, and must not control a terminal.
6. Known credentials (`hide`) are `***` in messages and errors: an agent may repeat them. Data of an agent is
   printed as it is.
7. The JSON document of an error has a code, which decides the exit code. An error of the protocol has A2A's
   own name (`TaskNotFoundError`), an error that A2A does not define has the agent's name for it, and every
   other error has a code of the specification of the command line (`A2ACLI_ERR_…`).
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from a2a_bridge.cli.specification import CODES, ERROR
from a2a_bridge.cli.values import Exit
from a2a_bridge.core.errors import A2AError, AgentFactoryError, Blame, Reason
from a2a_bridge.core.extras import OtherVersionError
from a2a_bridge.core.foreign_text import clean, clean_json
from a2a_bridge.core.masking import NONE_KNOWN, Secrets
from a2a_bridge.core.options import CLIENT_PREFIX, PREFIX

if TYPE_CHECKING:
    from a2a_bridge.extensions import BrokenExtensionError
    from a2a_bridge.stores import StoreOpenError

#: first words of messages and their levels, for a log
_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING}
#: formats messages; None: they are text
_formatter: logging.Formatter | None = None

#: the flags whose addresses are listened on
_LISTENING = "--http, --grpc, --listen, --admin, --usage-listen, --ui-listen"

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def data(text: str, *, end: str = "\n") -> None:
    """Prints data on stdout, at once, so that a reader of a stream sees it."""
    _write(clean(text) + end)


def document(tree: Any) -> None:
    """Prints a JSON document on one line of stdout."""
    from a2a_bridge.codec import dumps  # loads protobuf, which --version does not need

    _write(clean_json(dumps(tree).decode()) + "\n")


def _write(text: str) -> None:
    global _in_line  # noqa: PLW0603  stdout is global, too
    progress("")
    sys.stdout.write(text)
    sys.stdout.flush()
    if text and sys.stdout.isatty():
        _in_line = not text.endswith("\n")


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


#: whether the last line on a terminal has not ended: what comes on stderr would stand in it
_in_line = False
#: characters of the line of progress that is on the terminal
_progress = 0


def on_terminal() -> bool:
    """Whether a person sees stderr."""
    return _formatter is None and bool(sys.stderr.isatty())


def progress(text: str) -> None:
    """Shows a step in place of the step before; "" wipes the line. Does nothing if stderr is no terminal."""
    global _progress  # noqa: PLW0603  stderr is global, too
    if not (text or _progress) or not on_terminal() or (text and _in_line):
        return
    # A terminal that does not say how wide it is has 0 columns.
    width = (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1
    shown = clean(text).replace("\n", " ").replace("\t", " ")[:width]
    wiped = f"\r{' ' * _progress}" if _progress else ""
    sys.stderr.write(f"{wiped}\r{shown}")
    sys.stderr.flush()
    _progress = len(shown)


def print_as(formatter: logging.Formatter | None) -> None:
    """Prints messages as lines of the log from now on; None: as text again."""
    global _formatter  # noqa: PLW0603  stderr is global, too
    _formatter = formatter


#: the credentials of the running command
_secrets = NONE_KNOWN


def hide(secrets: Secrets) -> None:
    """Masks credentials in messages and errors from now on."""
    global _secrets  # noqa: PLW0603  stderr is global, too
    _secrets = secrets


#: whether only errors are printed
_quiet = False
#: beginnings of the messages about an error
_OF_ERRORS = ("error: ", "  try: ")


def be_quiet(quiet: bool) -> None:
    """Says whether the running command prints no messages but errors."""
    global _quiet  # noqa: PLW0603  stderr is global, too
    _quiet = quiet


def print_message(text: str, style: str = "") -> None:
    """Prints a message on stderr."""
    global _in_line  # noqa: PLW0603  stdout is global, too
    if _quiet and not text.startswith(_OF_ERRORS):
        return
    progress("")
    text = _secrets.text(text)
    if _in_line and on_terminal():
        sys.stderr.write("\n")
        _in_line = False
    if _formatter is not None:
        level = _LEVELS.get(text.partition(":")[0], logging.INFO)
        record = logging.LogRecord("a2a_bridge.cli", level, "", 0, text.strip(), None, None)
        sys.stderr.write(f"{_formatter.format(record)}\n")
    else:
        text = clean(text)
        if style and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
            text = f"\x1b[{_STYLES[style]}m{text}\x1b[0m"
        sys.stderr.write(text + "\n")
    sys.stderr.flush()


class MessageHandler(logging.Handler):
    """Prints records of the log as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        print_message(self.format(record))


def fail(code: Exit, text: str, advice: str = "", error: Failure | None = None, **members: Any) -> typer.Exit:
    """Prints an error; returns the exception that ends the command with the exit code. error: outweighs code,
    text and advice. members: of its JSON document, besides those of every error.
    """
    shown = error or local_failure(code, text, advice)
    shown = replace(shown, code=_secrets.text(shown.code), message=_secrets.text(shown.message))
    if wants_json():
        tree = shown.document
        tree["error"].update(members)
        document(tree)
    print_message(f"error: {shown.message}", "red")
    if shown.hint:
        print_message(f"  try: {shown.hint}")
    return typer.Exit(shown.exit)


#: whether the running command prints JSON, when that is known
_json: bool | None = None


def decide_json(wanted: bool | None) -> None:
    """Says whether the running command prints JSON; None: its command line decides."""
    global _json  # noqa: PLW0603  stdout is global, too
    _json = wanted


def wants_json() -> bool:
    """True if the command line asks for JSON, even if it cannot be parsed otherwise."""
    if _json is not None:
        return _json
    for one, following in pairwise((*sys.argv[1:], "")):
        if one == "--":
            break
        if one in ("-ojson", "--output=json", "-o=json"):
            return True
        if one in ("-o", "--output") and following == "json":
            return True
    names = (PREFIX, CLIENT_PREFIX)
    asked = any(os.environ.get(f"{name}OUTPUT") == "json" for name in names)
    return asked and sys.argv[1:2] not in (["serve"], ["gateway"], ["server"])


def cannot_listen(error: OSError) -> typer.Exit:
    """Prints the reason why an address cannot be listened on."""
    # asyncio of Python 3.13 raises an error without a number for an address of another machine.
    if isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, None):
        remedy = f"an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all ({_LISTENING})"
    elif error.errno == errno.EACCES:
        remedy = f"a port above 1023, or port 0 for any ({_LISTENING})"
    else:
        remedy = f"another port, or port 0 for any ({_LISTENING})"
    return fail(Exit.USAGE, f"cannot listen: {error}", remedy)


def not_opened(error: StoreOpenError, remedy: str | None = None) -> typer.Exit:
    """Prints the reason why a store cannot be opened. remedy: in place of the remedy of the error."""
    code = Exit.UNREACHABLE if error.unreachable else Exit.USAGE
    return fail(code, error.text, error.remedy if remedy is None else remedy)


def not_loaded(what: str, error: OtherVersionError | BrokenExtensionError) -> typer.Exit:
    """Prints the reason why an entry point of another distribution cannot be loaded. what: the name of the
    entry point, for an OtherVersionError; a BrokenExtensionError has the name itself.
    """
    if isinstance(error, OtherVersionError):
        return fail(Exit.USAGE, f"{what}: {error.text}", error.remedy)
    return fail(Exit.FAILURE, error.text, error.remedy)


def explain(error: A2AError) -> str:
    """An error in one paragraph."""
    lines = [error.message if error.name in error.message else f"{error.message} ({error.name})"]
    lines += [
        f"  {one.field}: {one.description}" for one in error.violations if one.field not in error.message
    ]
    lines += [f"  {note}" for note in getattr(error, "__notes__", ())]
    return "\n".join(lines)


@contextmanager
def guard(
    target: str,
    advice: Mapping[Reason, str] = MappingProxyType({}),
    *,
    credentials: bool = True,
) -> Iterator[None]:
    """Turns errors into a message, a JSON document if one was requested, and an exit code. advice: what to
    try, by the reason of an error that does not say it. credentials: whether some were sent.
    """
    from a2a_bridge.cli.target import BadTargetError

    try:
        yield
    except BadTargetError as error:
        raise fail(Exit.USAGE, str(error)) from None
    except A2AError as error:
        hint = getattr(error, "hint", "") or _advice(error, advice, target)
        shown = failure(error, explain(error), hint, credentials=credentials)
        raise fail(shown.exit, "", error=shown) from None
    except AgentFactoryError as error:
        raise fail(Exit.USAGE, explain_factory(error)) from None
    except TimeoutError:
        late = A2AError(Reason.DEADLINE_EXCEEDED, blame=Blame.SELF)
        shown = failure(late, f"{target} did not answer in time", "a larger --timeout")
        raise fail(shown.exit, "", error=shown) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def explain_factory(error: AgentFactoryError) -> str:
    """The text about a factory that failed, after the trace of its code on stderr."""
    if error.__cause__ is None:
        return str(error)
    from a2a_bridge.core.agent_traces import agent_trace  # no command needs it to show its help

    print_message(agent_trace(error.__cause__))
    return f"{error.name} {error.text.replace(':', ', at the line shown above:', 1)}"


def _advice(error: A2AError, known: Mapping[Reason, str], target: str) -> str:
    # Errors about certificates say what to do themselves.
    if error.reason in known and "certificate" not in error.message:
        return known[error.reason]
    if error.reason is Reason.UNAUTHENTICATED:
        return "-H 'Authorization: Bearer TOKEN'"
    if error.reason is Reason.VERSION_NOT_SUPPORTED:
        return f"a2a-bridge card get -a {target}"
    return ""


#: exit code of a failure without an error of A2A -> code
_BY_EXIT = {
    Exit.FAILURE: "INTERNAL",
    Exit.USAGE: "USAGE",
    Exit.UNREACHABLE: "UNREACHABLE",
    Exit.AUTH: "AUTH_FAILED",
    Exit.TIMEOUT: "TIMEOUT",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that ends a command."""

    #: see rule 7
    code: str
    message: str
    #: what to try; empty if there is nothing to say
    hint: str = ""
    #: A2A's number of the error, the same for every binding
    a2a_code: int | None = None

    @property
    def exit(self) -> Exit:
        return Exit(CODES.get(self.code.removeprefix(ERROR), Exit.FAILURE))

    @property
    def document(self) -> dict[str, Any]:
        """The error as JSON (Appendix B of the specification)."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "hint": self.hint or None,
                "a2aCode": self.a2a_code,
            }
        }


def local_failure(exit_code: Exit, message: str, hint: str = "") -> Failure:
    """A failure of the command itself, by its exit code."""
    return Failure(ERROR + _BY_EXIT[exit_code], message, hint)


def code_of(error: A2AError, *, credentials: bool = True) -> str:
    """The code of an error. credentials: whether some were sent."""
    from a2a_bridge.cards.read import CardError

    if isinstance(error, CardError):
        return ERROR + ("CARD_NOT_FOUND" if error.absent else "CARD_INVALID")
    by_exit = Exit(error.reason.kind.exit)
    if by_exit is Exit.AUTH and not credentials:
        return ERROR + "CREDENTIALS_MISSING"
    if by_exit is not Exit.FAILURE:
        return ERROR + _BY_EXIT[by_exit]
    if error.name != error.reason.name:  # of the agent's own; it cannot be one of ours
        return error.name.removeprefix(ERROR)
    if error.reason.type_name:
        return error.reason.type_name
    return ERROR + "INTERNAL" if error.blame is Blame.SELF else error.name


def failure(error: A2AError, message: str, hint: str = "", *, credentials: bool = True) -> Failure:
    """An error of the protocol, or of the way to the agent. message: in place of the message of the error."""
    code = code_of(error, credentials=credentials)
    # Only JSON-RPC has numbers for errors that A2A does not define.
    return Failure(code, message, hint, error.code if code == error.reason.type_name else None)
