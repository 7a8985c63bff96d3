from strands.agent.agent import Agent as Agent
