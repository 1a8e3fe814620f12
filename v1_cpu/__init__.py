"""v1_cpu: a complete V1 CPU attention backend."""
