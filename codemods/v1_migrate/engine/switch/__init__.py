"""Folds the engine switch `VLLM_USE_V1` out of a file: what is read, what is set, and what nothing needs afterwards."""
