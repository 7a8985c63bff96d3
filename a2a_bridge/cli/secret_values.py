"""Which values of options are secrets: they do not stand in configuration files, and are never printed."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from a2a_bridge.cli.declared import Option

#: names of headers whose values are credentials
_CREDENTIAL = re.compile(r"auth|cookie|token|secret|password|api-?key|credential|signature", re.IGNORECASE)
#: what is printed instead of a secret
HIDDEN = "***"


def plain_secret(one: Option, value: Any) -> bool:
    """True if a value of an option is a secret as it is, and not the name of a file."""
    return one.described.secret and shown(one, value) != value


def shown(one: Option, value: Any) -> Any:
    """A value as it can be printed: secrets are `***`, names of files with secrets stay."""
    if not one.described.secret:
        return value
    if isinstance(value, list):
        return [_header(text) if isinstance(text, str) else text for text in value]
    if not isinstance(value, str) or value.startswith("@") or not value:
        return value
    return _url(value) if one.described.metavar == "URL" else HIDDEN


def _header(text: str) -> str:
    name, colon, value = text.partition(":")
    if not colon:
        return HIDDEN
    if value.strip().startswith("@") or not _CREDENTIAL.search(name):
        return text
    return f"{name}: {HIDDEN}"


def _url(text: str) -> str:
    """A URL without its password, which can also be a parameter."""
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return HIDDEN
    if password:
        user, _, host = parts.netloc.rpartition("@")
        text = parts._replace(netloc=f"{user.partition(':')[0]}:{HIDDEN}@{host}").geturl()
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", rf"\g<1>{HIDDEN}", text)
