"""The words for certificates that a connection failed on. They are pure, and the same for every binding.

`proxy` is a module of its own: it loads an HTTP client, which no server needs.
"""

#: what OpenSSL or gRPC says, in lower case, and what it means
_WORDS = (
    ("expired", "has expired: its operator has to renew it"),
    (
        "not yet valid",
        "is not valid yet: see the clocks of both machines",
    ),
    ("mismatch", "is for other names than this host's: use a name that is in it"),
    ("hostname verification", "is for other names than this host's: use a name that is in it"),
)
#: alerts about the certificate of this side
_ALERTS = (
    ("certificate_required", "the agent wants a client certificate (--cert)"),
    (
        "alert_handshake_failure",
        "the agent rejected the handshake; it may want a client certificate (--cert)",
    ),
    ("alert_unknown_ca", "the agent does not trust the client certificate (--cert)"),
    ("alert_certificate_expired", "the client certificate (--cert) has expired"),
    ("alert_bad_certificate", "the agent rejected the client certificate (--cert)"),
)


def certificate_problem(reason: str) -> str:
    """The problem of a peer's certificate, as the end of a sentence. reason: the text of OpenSSL or gRPC."""
    text = reason.lower()
    for mark, words in _WORDS:
        if mark in text:
            return words
    said = f": {reason}" if reason else ""
    return f"is not trusted{said}; --cacert names the authority that signed it"


def alert_problem(text: str) -> str:
    """What a TLS alert of a peer in an error says about the certificate of this side; empty for another."""
    text = text.lower().replace(" ", "_")
    return next((words for mark, words in _ALERTS if mark in text), "")
