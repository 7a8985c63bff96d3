"""How many bytes of requests and answers each binding has read and written, for the whole process.

Rules:
1. What is counted is the body of a request or a response, or one event or message, as it is on the wire
   before compression: without headers and framing.
2. Only the event loop counts.
"""

from __future__ import annotations

from collections import Counter

#: bytes of requests by binding
received_bytes: Counter[str] = Counter()
#: bytes of responses and events by binding
sent_bytes: Counter[str] = Counter()
