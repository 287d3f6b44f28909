"""A simulated OpenAI-compatible gateway in a process of its own.

It knows the answers of a task file and gives them with a probability that depends on the model, the task and
the effort that the prompt asks for. All of it is invented, repeats for a seed, and is labelled as simulated.
"""

from paretoken.simulator.process import SimulatedGateway, launch

__all__ = ["SimulatedGateway", "launch"]
