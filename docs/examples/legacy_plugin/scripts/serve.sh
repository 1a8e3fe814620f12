#!/usr/bin/env bash
# Serves on all cores of one socket.
set -euo pipefail

export VLLM_CPU_KVCACHE_SPACE=16
export VLLM_CPU_OMP_THREADS_BIND=0-15

VLLM_USE_V1=0 vllm serve "${1:-facebook/opt-125m}" \
    --device cpu \
    --worker-cls vllm.worker.cpu_worker.CPUWorker \
    --disable-log-requests
