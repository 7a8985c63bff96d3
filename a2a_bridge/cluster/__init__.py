"""Several replicas of one agent: who is alive, calls to each other, and the events of each other's tasks."""
