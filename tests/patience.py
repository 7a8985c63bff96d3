"""The time limits of the tests."""

#: Seconds. It only bounds a hang: no test passes because it is over, and it is long enough for a machine with
#: a load of 30.
PATIENCE = 240.0

#: Seconds. The time limits of a call that has to end by its limit after it has arrived: the next one if it had
#: not arrived by then, as on a machine with much other work.
LIMITS = (0.1, 0.5, 5.0, 50.0)
