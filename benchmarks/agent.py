"""The behaviour of the measured agents, as constants. Each side implements the agent with its own means.

The text of the message decides:

* anything else: the response is a Message with the same text;
* `task`: submitted, working, one artifact, completed;
* `stream`: submitted, working, CHUNKS pieces of one artifact, completed;
* `long`: like `stream`, LONG_EVENTS in all;
* `hold`: submitted, working, then nothing until the end of the server.
"""

from __future__ import annotations

TASK = "task"
STREAM = "stream"
HOLD = "hold"
LONG = "long"
ECHO = "What will the weather be like in Lisbon tomorrow?"

CHUNKS = 100
#: the task, working, the chunks, completed
EVENTS = CHUNKS + 3
LONG_EVENTS = 10_000
CHUNK = "the quick brown fox "
ARTIFACT = "answer"
ANSWER = "It will be sunny, with a light breeze from the north-west in the afternoon."

VERSION = "1.0"
