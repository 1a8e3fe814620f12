"""Generated examples are the same on every run, so that a failure belongs to the change; V1_RANDOM=1 looks for new ones."""

from __future__ import annotations

import os

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the tests of generated examples are skipped without it
    pass
else:
    settings.register_profile(
        "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile("random", deadline=None)
    settings.load_profile("random" if os.environ.get("V1_RANDOM") else "fixed")
