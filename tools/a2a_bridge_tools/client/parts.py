"""Parts of a message, from the flags of `send`, in their order; and files of responses, on disk.

Rules:
1. `--media-type` belongs to the part flag before it; without one it is a usage error.
2. A file becomes bytes, a URL stays a URL that the agent reads.
3. Nothing is written outside the chosen folder, and nothing is overwritten unless that is asked for.
"""

import errno
import json
import mimetypes
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from a2a_bridge.cli.values import as_usage_error, usage_error
from a2a_bridge.codec import DecodeError, JsonSyntaxError, encoder, loads
from a2a_bridge.core.messages import data_part
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Value
from a2a_bridge_tools.client.flags import SendFlags

_encode_value = encoder(Value)
_UNSAFE = re.compile(r"[^\w.()+ -]")
#: bytes of a name on disk; with a number behind it, file systems with 255 take it
_LONGEST = 200
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;.*)?")


def parts_of(text: str | None, flags: SendFlags, order: Sequence[str]) -> list[hub.Part]:
    """The parts of a message. order: the names of the flags as they were given. Raises typer.BadParameter."""
    found = [] if text is None else [hub.Part(text=from_stdin("TEXT") if text == "-" else text)]
    values = {name: iter(getattr(flags, name) or ()) for name in _MAKERS | {"media_type": None}}
    flagged = False
    for name in order:
        value = next(values[name], None) if name in values else None
        if value is None:
            continue
        if name != "media_type":
            found.append(_MAKERS[name](value))
            flagged = True
        elif not flagged:
            raise usage_error("--media-type", "belongs behind a part flag")
        elif not _MEDIA_TYPE.fullmatch(value):
            raise usage_error("--media-type", f"{value!r} is no media type such as text/plain")
        else:
            found[-1].media_type = value
    if not found:
        raise typer.BadParameter("there is nothing to send: TEXT, --text-part, --file-part or --data-part")
    return found


def from_stdin(hint: str) -> str:
    """Standard input without its last line end. Raises typer.BadParameter."""
    raw_bytes = sys.stdin.buffer.read()
    try:
        text = raw_bytes.decode()
    except UnicodeDecodeError as error:
        raise usage_error(hint, f"standard input is not UTF-8 (byte {error.start})") from None
    return text.removesuffix("\n").removesuffix("\r")


def json_object(text: str, hint: str) -> Any:
    """A JSON object from a command line. Raises typer.BadParameter."""
    tree = _json(text, hint)
    if not isinstance(tree, dict):
        raise usage_error(hint, "is not a JSON object")
    return tree


def _json(text: str | bytes, hint: str) -> Any:
    try:
        return loads(text.encode() if isinstance(text, str) else text)
    except JsonSyntaxError as error:
        raise usage_error(hint, f"is not JSON: {error}") from None


def _file(place: str) -> hub.Part:
    if "://" in place:
        name = Path(urlsplit(place).path).name
        return hub.Part(url=place, filename=name, media_type=mimetypes.guess_type(name)[0] or "")
    path = Path(place)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return hub.Part(raw=_content(path, "--file-part"), filename=path.name, media_type=kind)


def _data(place: str) -> hub.Part:
    hint = "--data-part"
    if place == "-":
        content: str | bytes = from_stdin(hint)
    else:
        content = place if place[:1] in ("{", "[") else _content(Path(place), hint)
    with as_usage_error(hint, DecodeError):
        return data_part(_json(content, hint), media_type="application/json")


def _content(path: Path, hint: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise usage_error(hint, f"{path} cannot be read: {error.strerror}") from None


_MAKERS: Any = {"text_part": lambda value: hub.Part(text=value), "file_part": _file, "data_part": _data}


def files_of(answer: Any) -> Iterator[tuple[str, hub.Part]]:
    """The parts of a task, a message or an event that hold a file, with the name of their artifact."""
    which = answer.WhichOneof("payload") if answer.DESCRIPTOR.oneofs_by_name.get("payload") else None
    inner = getattr(answer, which) if which else answer
    artifacts: Iterable[hub.Artifact] = getattr(inner, "artifacts", ())
    if isinstance(inner, hub.TaskArtifactUpdateEvent):
        artifacts = [inner.artifact]
    elif isinstance(inner, hub.Message):
        artifacts = [hub.Artifact(parts=inner.parts)]
    for artifact in artifacts:
        for part in artifact.parts:
            if part.WhichOneof("content") in ("raw", "url"):
                yield artifact.name or artifact.artifact_id, part


def contents_of(task: hub.Task) -> Iterator[tuple[str, bytes | None, hub.Part]]:
    """What the artifacts of a task are on disk: name, content, part; None for a file at a URL."""
    for artifact in task.artifacts:
        name = artifact.name or artifact.artifact_id or "artifact"
        texts = [part.text for part in artifact.parts if part.WhichOneof("content") == "text"]
        if texts:
            yield f"{Path(name).stem}.txt", "".join(texts).encode(), artifact.parts[0]
        for part in artifact.parts:
            which = part.WhichOneof("content")
            if which == "data":
                text = json.dumps(_encode_value(part.data), indent=2, ensure_ascii=False)
                yield f"{Path(name).stem}.json", f"{text}\n".encode(), part
            elif which in ("raw", "url"):
                yield file_name(part, name), part.raw if which == "raw" else None, part


def file_name(part: hub.Part, otherwise: str) -> str:
    """The name of a file: the name in the part, or a name with the usual ending of its type."""
    if part.filename:
        return part.filename
    return otherwise + (mimetypes.guess_extension(part.media_type.partition(";")[0]) or ".bin")


def save(folder: Path, name: str, content: bytes, *, overwrite: bool = False) -> Path:
    """Writes an agent's file under a name that stays in the folder; returns the path. Raises OSError."""
    # The last part of a path of either system, without anything that a shell or a file system reads.
    plain = _shorten(_UNSAFE.sub("_", re.split(r"[/\\]", name)[-1]).strip(". ")) or "file"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(10_000):
        path = folder / (plain if not number else f"{Path(plain).stem}-{number}{Path(plain).suffix}")
        try:
            # No link that lies there is followed.
            if overwrite and (path.is_symlink() or path.exists()):
                path.unlink()
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(errno.EEXIST, f"there are too many files named {plain}", str(folder))


def _shorten(name: str) -> str:
    """A name of at most _LONGEST bytes, with its suffix unless that is most of the name."""
    suffix = Path(name).suffix
    size = len(suffix.encode())
    if size > _LONGEST // 2:
        suffix, size = "", 0
    # File systems count bytes, and a cut can be inside of a character.
    return name.removesuffix(suffix).encode()[: _LONGEST - size].decode(errors="ignore") + suffix
