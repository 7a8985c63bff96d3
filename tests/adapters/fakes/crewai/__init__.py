"""A stand-in for crewai 1.15: a crew whose model repeats its inputs, and a flow that does what the message says.

It has the interface that the adapter uses, and its rules: a run changes a crew or a flow, questions block or are
awaited in the context of the run. `make frameworks` has the real package.
"""

from crewai.crew import Crew as Crew
from crewai.flow.runtime import Flow as Flow
