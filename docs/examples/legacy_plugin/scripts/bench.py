"""Starts the server, asks it once, and prints how long that took."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import version

assert version("vllm") >= "0.8.5", "older releases have no plugins for platforms"
command = ["vllm", "serve", sys.argv[1], "--port", "8000", "--swap-space", "4", "--max-model-len", "512"]
server = subprocess.Popen(command, env={**os.environ, "VLLM_LOGITS_PROCESSOR_THREADS": "2"})
try:
    start = time.monotonic()
    while time.monotonic() - start < 600:
        try:
            urllib.request.urlopen("http://localhost:8000/health").close()
            print(f"ready after {time.monotonic() - start:.0f} s")
            question = {"model": sys.argv[1], "prompt": "Is water wet?", "guided_choice": ["yes", "no"]}
            url, kind = "http://localhost:8000/v1/completions", {"Content-Type": "application/json"}
            request = urllib.request.Request(url, json.dumps(question).encode(), kind)
            print(urllib.request.urlopen(request).read())
            break
        except OSError:
            time.sleep(1)
finally:
    server.terminate()
