"""Rejects paths that are not UTF-8 before pyvoy gets them: pyvoy 1.3.0 never answers such a request.

The RBAC filter rejects the request, and the mapping of local replies gives the response the status and the
body that the builtin server has for it.
"""

from __future__ import annotations

import json
from typing import Any

_TYPE = "type.googleapis.com/"
_HEX, _NEXT = "[0-9A-Fa-f]", "%[89ABab][0-9A-Fa-f]"
#: one character that is percent-encoded in UTF-8 (RFC 3629, 4)
_ENCODED = "|".join(
    (
        f"%[0-7]{_HEX}",
        f"%(?:[Cc][2-9A-Fa-f]|[Dd]{_HEX}){_NEXT}",
        f"%[Ee]0%[ABab]{_HEX}{_NEXT}",
        f"%[Ee][1-9ABCEFabcef]{_NEXT}{_NEXT}",
        f"%[Ee][Dd]%[89]{_HEX}{_NEXT}",
        f"%[Ff]0%[9ABab]{_HEX}{_NEXT}{_NEXT}",
        f"%[Ff][1-3]{_NEXT}{_NEXT}{_NEXT}",
        f"%[Ff]4%8{_HEX}{_NEXT}{_NEXT}",
    )
)
#: percent signs that encode nothing, which stand for themselves
_LITERAL = f"(?:%{_HEX}?)+"
#: printable ASCII except `%` and `?`; the same without hexadecimal digits
_PLAIN, _NO_DIGIT = "[!-$&->@-~]", "[!-$&-/:->@G-`g-~]"
#: a request target whose path is UTF-8. The bridge reads the query itself.
READABLE = rf"(?:{_PLAIN}|{_ENCODED}|{_LITERAL}{_NO_DIGIT})*(?:{_LITERAL})?(?:\?.*)?"
#: for the layered runtime: Envoy rejects expressions above 100 by default
LIMITS = {"re2.max_program_size.error_level": 200, "re2.max_program_size.warn_level": 200}
_UNREADABLE = {
    "name": ":path",
    "string_match": {"safe_regex": {"regex": READABLE}},
    "invert_match": True,
}
#: a test compares it with the response of the builtin server
_ANSWER = {
    "error": {
        "code": 400,
        "status": "INVALID_ARGUMENT",
        "message": "the path is not UTF-8",
        "details": [
            {
                "@type": _TYPE + "google.rpc.ErrorInfo",
                "reason": "INVALID_REQUEST",
                "domain": "a2a-protocol.org",
            }
        ],
    }
}


def readable_only() -> dict[str, Any]:
    """The HTTP filter."""
    rejected = {"permissions": [{"header": _UNREADABLE}], "principals": [{"any": True}]}
    return {
        "name": "envoy.filters.http.rbac",
        "typed_config": {
            "@type": _TYPE + "envoy.extensions.filters.http.rbac.v3.RBAC",
            "rules": {"action": "DENY", "policies": {"path": rejected}},
        },
    }


def local_replies() -> dict[str, Any]:
    """The response to a request that the filter rejects."""
    body = {"text_format_source": {"inline_string": json.dumps(_ANSWER)}, "content_type": "application/json"}
    return {
        "mappers": [
            {
                "filter": {"header_filter": {"header": _UNREADABLE}},
                "status_code": 400,
                "body_format_override": body,
            }
        ]
    }
