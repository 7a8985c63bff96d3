"""`a2a-bridge keys`: creates, lists and revokes API keys. Servers read the file again within a second."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from a2a_bridge.cli.commands import Command, command_group
from a2a_bridge.cli.flags import Output, OutputFlags
from a2a_bridge.cli.output import columns, data, document, fail
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.values import Exit, parse_time
from a2a_bridge.core.options import PREFIX, flag

app = command_group("keys", "Create, list and revoke the API keys of callers.")

KeysFile = Annotated[
    Path,
    typer.Option(
        "--file", metavar="FILE", envvar=PREFIX + "API_KEYS", help="The file of --api-keys of the server."
    ),
]
KeyId = Annotated[
    str, typer.Option("--id", metavar="NAME", help="Name of the key: letters, digits, _ and -.")
]


@dataclass(frozen=True, kw_only=True)
class CreateFlags(OutputFlags):
    """The flags of `keys create`."""

    principal: str = flag(
        "", "Who uses it: the owner of its tasks, and the name in logs; default: the id.", "NAME", variable=""
    )
    scope: list[str] | None = flag(
        None, "Scope of the key, for access rules; may be repeated.", "SCOPE", variable=""
    )
    expires: str = flag(
        "", "Its life, such as 12h or 90d; default: until it is revoked.", "TIME", variable=""
    )


@app.command(cls=Command)
@with_flags
def create(*, file: KeysFile, key_id: KeyId, flags: CreateFlags) -> None:
    """Create a key and print it. It is shown this once; the file has only a hash of it.

    For example:

      a2a-bridge keys create --file keys.json --id ci --scope send --expires 90d
    """
    from a2a_bridge.auth import KeyFile

    expires = time.time() + parse_time(flags.expires, "--expires") if flags.expires else None
    with _explain_errors(file):
        made = KeyFile(file).create(
            key_id, principal=flags.principal, scopes=flags.scope or (), expires=expires
        )
    if flags.output is Output.JSON:
        document({"key": made.text, **_tree(made.record)})
    else:
        data(made.text)


@app.command("list", cls=Command)
@with_flags
def list_(*, file: KeysFile, flags: OutputFlags) -> None:
    """Show the keys, without their secrets.

    For example:

      a2a-bridge keys list --file keys.json
    """
    from a2a_bridge.auth import KeyFile

    with _explain_errors(file):
        records = list(KeyFile(file).read().values())
    if flags.output is Output.JSON:
        document({"keys": [_tree(one) for one in records]})
        return
    rows = [["ID", "PRINCIPAL", "SCOPES", "STATE", "CREATED", "EXPIRES"]]
    for one in records:
        scopes = " ".join(one.scopes) or "-"
        rows.append([one.id, one.principal, scopes, _state(one), one.created or "-", one.expires or "-"])
    data(columns(rows) if records else "no keys")


@app.command(cls=Command)
@with_flags
def revoke(*, file: KeysFile, key_id: KeyId, flags: OutputFlags) -> None:
    """Revoke a key; servers reject it within a second. Its record stays in the file.

    For example:

      a2a-bridge keys revoke --file keys.json --id ci
    """
    from a2a_bridge.auth import KeyFile

    with _explain_errors(file):
        record = KeyFile(file).revoke(key_id)
    if flags.output is Output.JSON:
        document(_tree(record))
    else:
        data(f"{record.id} is revoked since {record.revoked}")


@contextmanager
def _explain_errors(file: Path) -> Iterator[None]:
    """Turns errors of the file into messages and exit codes."""
    from filelock import Timeout

    try:
        yield
    except Timeout:
        raise fail(Exit.USAGE, f"another command uses {file}", "the same again") from None
    except FileNotFoundError:
        raise fail(
            Exit.USAGE, f"there is no file {file}", f"a2a-bridge keys create --file {file} --id NAME"
        ) from None
    except OSError as error:
        raise fail(Exit.USAGE, f"{file} cannot be used: {error.strerror}") from None
    except LookupError as error:
        raise fail(Exit.USAGE, str(error.args[0]), f"a2a-bridge keys list --file {file}") from None
    except ValueError as error:
        raise fail(Exit.USAGE, str(error)) from None


def _state(record: Any) -> str:
    if record.revoked:
        return "revoked"
    return "valid" if record.is_valid(time.time()) else "expired"


def _tree(record: Any) -> dict[str, Any]:
    return {
        "id": record.id,
        "principal": record.principal,
        "scopes": list(record.scopes),
        "state": _state(record),
        "created": record.created,
        "expires": record.expires,
        "revoked": record.revoked,
    }
