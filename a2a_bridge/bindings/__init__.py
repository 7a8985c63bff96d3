"""The interface of transports (`binding.py`), and what servers and clients of every transport need beside it:
limits of time, memory and size, streams that resume, and the certificates of listeners.
"""
