"""A stand-in for Google ADK: an agent with tools, whose model does what the newest message says.

It has the interface of google-adk 2.13 that the adapter uses, and its rules: events are kept in sessions, the last
event of a message repeats the partial ones, a question is the call of a long-running tool, and a model rejects calls
without a result. `make frameworks` runs the same checks with the real package.
"""
