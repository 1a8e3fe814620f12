"""v1_compat: to route legacy vLLM V0 imports and calls to V1. The package is reserved; nothing is in it yet."""
