"""Serves a model with the server of llama.cpp in the package xllamacpp, by the flags of `llama-server` that the preset passes."""

import argparse
import signal

import xllamacpp

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--model", required=True)
parser.add_argument("--alias", required=True)
parser.add_argument("--host", required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--metrics", action="store_true")
flags = parser.parse_args()

settings = xllamacpp.CommonParams()
settings.model.path = flags.model
settings.model_alias = {flags.alias}
settings.hostnames = [flags.host]
settings.port = flags.port
settings.endpoint_metrics = flags.metrics
settings.n_ctx = 2048
settings.n_parallel = 2
settings.cpuparams.n_threads = 1

# The server's threads inherit the blocked signals, so this thread gets them.
ends = {signal.SIGTERM, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, ends)
server = xllamacpp.Server(settings)
print(f"llama.cpp serves at {server.listening_address}", flush=True)
signal.sigwait(ends)
