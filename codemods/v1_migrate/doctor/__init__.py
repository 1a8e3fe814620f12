"""`v1-migrate doctor`: what an engine of an environment would do, asked of that environment's own Python.

`probe` runs there, in a child process; everything else runs here and imports neither torch nor vllm.
"""

from __future__ import annotations
