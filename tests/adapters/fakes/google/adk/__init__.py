"""A stand-in for google-adk 2.13: an agent with tools, whose model does what the newest message says.

It has the interface that the adapter uses, and its rules: sessions keep events, the last one repeats the
partial ones, a question is the call of a long-running tool. `make frameworks` has the real package.
"""
