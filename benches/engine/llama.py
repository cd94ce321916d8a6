"""Serves a model with llama.cpp: one thread, one answer at a time, its own defaults for everything else."""

import argparse
import signal

import xllamacpp

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--context", type=int, required=True)
parser.add_argument("--port", type=int, required=True)
arguments = parser.parse_args()
params = xllamacpp.CommonParams()
params.model.path = arguments.model
params.n_ctx = arguments.context
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.port = arguments.port
server = xllamacpp.Server(params)
signal.pause()
