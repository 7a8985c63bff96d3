"""Speed and memory against the official SDK and against bare servers. Not tests: a slow run fails nothing."""
