"""Which values of options are secrets: they do not stand in configuration files, and are never printed."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from a2a_bridge.cli.declared import Option
from a2a_bridge.core.masking import CREDENTIAL, HIDDEN, without_query_values


def plain_secret(one: Option, value: Any) -> bool:
    """True if a value of an option is a secret as it is, and not the name of a file."""
    if isinstance(value, list):
        return one.described.secret and any(isinstance(text, str) and _is_credential(text) for text in value)
    return one.described.secret and show_value(one, value) != value


def show_value(one: Option, value: Any) -> Any:
    """A value as it can be printed: secrets are `***`, names of files with secrets stay."""
    if isinstance(value, list):
        hide = _header if one.described.secret else _url
        return [hide(text) if isinstance(text, str) else text for text in value]
    if not isinstance(value, str) or value.startswith("@") or not value:
        return value
    return _url(value) if one.described.metavar == "URL" or not one.described.secret else HIDDEN


def _is_credential(header: str) -> bool:
    """Whether the name of a header says that its value is a secret. Without a name it may be one."""
    name, colon, value = header.partition(":")
    return not colon or (not value.strip().startswith("@") and CREDENTIAL.search(name) is not None)


def _header(text: str) -> str:
    """A header as it can be printed: a harmless one stays, because a printed configuration can be used."""
    if not _is_credential(text):
        return text
    name, colon, _ = text.partition(":")
    return f"{name}: {HIDDEN}" if colon else HIDDEN


def _url(text: str) -> str:
    """A URL without its password and the values of its query; other text is unchanged."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
        user, password = parts.username, parts.password
    except ValueError:
        return HIDDEN
    host = parts.netloc.rpartition("@")[2]
    if password:
        text = parts._replace(netloc=f"{user}:{HIDDEN}@{host}").geturl()
    elif user and parts.scheme in ("http", "https"):  # a token in place of a user
        text = parts._replace(netloc=f"{HIDDEN}@{host}").geturl()
    return without_query_values(text)
