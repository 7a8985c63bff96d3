"""A stand-in for strands-agents 1.62: an agent with tools, whose model does what the newest message says.

It has the interface that the adapter uses, and its rules: an agent holds one conversation and runs one turn at
a time, an interrupt is answered by its id, each call needs a result before the next model. `make frameworks`
has the real package.
"""
