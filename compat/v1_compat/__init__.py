"""v1_compat: routes legacy vLLM V0 imports and calls to V1."""
