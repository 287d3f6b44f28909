"""The front door: command line, settings, embedded servers and the simulated gateway."""
