"""The tools of a2a-bridge for people: commands that call, compare and check agents, and a playground. A
distribution of its own, with entry points of `a2a_bridge.commands`: a server in production needs none of it.
"""
