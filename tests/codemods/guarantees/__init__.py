"""The judge of `v1-migrate rewrite`: what must hold on any code base, checked apart from the rules that do the work.

Nothing here imports `v1_migrate`: a mistake in its names table must not hide itself.
"""
