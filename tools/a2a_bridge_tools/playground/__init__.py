"""The playground: a page to call an agent over several bindings at once, and see what was on the wire.

Rules:
1. The page is a client like any other: calls go to the addresses of the agent's card. Only a gateway gives it
   more: the traffic to its agent, for calls of the page.
2. Every record is in the format of `client/recording.py`, with more members, which `compare --replay` reads.
3. Everything that is kept is bounded. Without `--ui` nothing of this is loaded.
"""
