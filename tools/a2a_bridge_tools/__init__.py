"""The tools of a2a-bridge for people: commands that call, compare and check agents, and a playground. They
are a distribution of their own, because a server in production needs none of them. The command `a2a-bridge`
finds its commands as entry points of the group `a2a_bridge.commands`.
"""
