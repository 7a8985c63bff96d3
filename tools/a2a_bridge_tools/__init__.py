"""The tools of a2a-bridge for people: commands that call, compare and check agents, and a playground. A
distribution of its own: a server in production needs none of this. The commands are entry points of the group
`a2a_bridge.commands`.
"""
