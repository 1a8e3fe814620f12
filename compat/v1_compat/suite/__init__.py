"""The compatibility suite: what a CPU attention backend owes code that was written for V0, as tests.

    pytest --pyargs v1_compat.suite                                  # the legacy backend of v1_compat
    pytest --pyargs v1_compat.suite --backend my_plugin.attn:MyBackend

A backend is a class: V0's kind (its cache shape is ``(2, NB, BS * KH * D)``) is driven with V0 metadata, V1's kind with
its metadata builder, and one that derives from vLLM's through vLLM's own layer. Read the tests as the specification;
every expected number comes from `reference`, which is dense attention in float64.
"""
