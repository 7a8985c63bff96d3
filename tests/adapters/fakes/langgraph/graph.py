"""The end of a graph."""

END = "__end__"
