"""v1-migrate: takes code written for vLLM's V0 engine to V1."""

__version__ = "0.1.0"
