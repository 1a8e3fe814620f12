#!/usr/bin/env bash
# Runs the tests of the plugin against the patched vLLM of the build image.
set -euo pipefail

sed -i 's/block_size = 16/block_size = 32/' "$VIRTUAL_ENV"/lib/python3.11/site-packages/vllm/worker/cpu_worker.py
export VLLM_USE_V1=1
export VLLM_CPU_KVCACHE_SPACE=4 VLLM_ATTENTION_BACKEND=TORCH_SDPA

pytest -v tests -m "not skip_v1"
