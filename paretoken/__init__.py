"""The front door: command line, settings, embedded servers and the simulated gateway."""

from importlib.metadata import version

__version__ = version("paretoken")
