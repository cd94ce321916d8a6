#!/usr/bin/env python3
"""Compares predictions of `longboat simulate` with runs of the same traces on `longboat up`.

    compare.py LONGBOAT FOLDER [POLICY/TRACE ...]
    compare.py LONGBOAT FOLDER --cpu MODEL.gguf

The first command runs the simulator, the second the CPU engine, whose times are measured before and after each run.

Writes traces, manifests and one JSON file for each pair of a policy and a trace into FOLDER, and prints a table of all that are
there. The times of the simulator are ten times those of `up`'s, so that the processes of a busy machine do not count. The picker's
random choices differ between two runs, so a prediction is the mean of those with several seeds.
"""

import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from replay import replay  # noqa: E402

SEEDS = range(1, 11)
REPLICAS = 3
ENGINE = ("--time-to-first-token 150ms --prefill-time-per-token 600us --inter-token-latency 60ms --max-num-seqs 16 "
          "--time-factor-under-load 3 --kv-cache-size 2048")
TRACES = {
    "poisson": "--generate poisson --rate 3 --requests 200 --seed 11 --output-tokens 32",
    "sessions": "--generate sessions --rate 3 --requests 200 --seed 12 --output-tokens 32",
    "agents": "--generate agents --rate 1.5 --requests 110 --seed 13 --prompt-tokens 64 --output-tokens 24",
}
# The scorers of each policy with their weights. No scorer: a random choice. `None`: the preset of the service.
POLICIES = {
    "random": {},
    "queue": {"queue-scorer": 1},
    "running": {"running-requests-size-scorer": 1},
    "active": {"active-request-scorer": 1},
    "prefix": {"prefix-cache-scorer": 1},
    "preset": None,
}
# The CPU engine computes about 100 tokens of a prompt a second on a shared machine, so its traces are short and slow.
CPU_TRACES = {
    "poisson": "--generate poisson --rate 0.25 --requests 30 --seed 11 --prompt-tokens 128 --output-tokens 16",
    "sessions": "--generate sessions --rate 0.4 --requests 30 --seed 12 --prompt-tokens 48 --output-tokens 16",
}
CPU_POLICIES = ("random", "prefix")
CPU_REPLICAS = 2
# The engine's limits, which calibration cannot measure.
CPU_LIMIT = "64"
CPU_BATCHED_TOKENS = "256"
WITHIN = 0.15


def config(scorers):
    picker = "max-score-picker" if scorers else "random-picker"
    plugins = [{"type": name} for name in [*scorers, picker]]
    chosen = [{"pluginRef": name, "weight": weight} for name, weight in scorers.items()] + [{"pluginRef": picker}]
    return {"apiVersion": "inference.networking.x-k8s.io/v1alpha1", "kind": "EndpointPickerConfig", "plugins": plugins,
            "schedulingProfiles": [{"name": "default", "plugins": chosen}]}


def manifest(scorers, model=None):
    scheduler = {} if scorers is None else {"config": {"inline": config(scorers)}}
    if model:
        return {"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": "compared"},
                "spec": {"model": {"uri": f"file://{os.path.realpath(model)}", "name": "qwen"}, "replicas": CPU_REPLICAS,
                         "router": {"route": {}, "gateway": {}, "scheduler": scheduler}}}
    main = {"name": "main", "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": ENGINE}]}
    return {"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": "compared"},
            "spec": {"model": {"uri": "hf://Qwen/Qwen2.5-0.5B-Instruct", "name": "qwen"}, "replicas": REPLICAS,
                     "template": {"containers": [main]},
                     "router": {"route": {}, "gateway": {}, "scheduler": scheduler}}}


def predict(longboat, service, trace, engine=ENGINE):
    reports = []
    for seed in SEEDS:
        command = [longboat, "simulate", service, "--trace", trace, "--engine-args", engine, "--seed", str(seed), "-o", "json"]
        reports.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["reports"][0])
    mean = lambda value: statistics.mean(value(report) for report in reports)  # noqa: E731
    times = {name: {share: mean(lambda report: report[name][share]) for share in ("p50", "p90", "p99")}
             for name in ("ttft", "itl", "e2e")}
    return {**times, "hit_ratio": mean(lambda report: report["hit_ratio"])}


@contextlib.contextmanager
def running(longboat, service, engine):
    """Runs a service. Gives its address and that of its first engine."""
    command = [longboat, "up", service, "--engine", engine, "--offline", "--port", "0"]
    up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        first = None
        for line in up.stdout:
            if found := re.search(r"ready at (\S+), engine: ", line):
                first = first or found[1]
            if found := re.search(r"serves at (http\S+)", line):
                yield found[1], f"http://{first}:8000"
                return
        raise SystemExit(f"{service}: `longboat up` has ended before the service was ready")
    finally:
        up.send_signal(signal.SIGINT)
        up.stdout.read()
        up.wait()


def measure(longboat, service, trace):
    with running(longboat, service, "sim") as (address, _):
        return replay(address, "qwen", trace)


def compare_cpu(longboat, folder, model):
    """The speed of the engine depends on what else the machine does, so it is measured right before and after each run."""
    for policy in CPU_POLICIES:
        service = f"{folder}/{policy}.yaml"
        with open(service, "w") as text:
            json.dump(manifest(POLICIES[policy], model), text)
        with running(longboat, service, "cpu") as (address, engine):
            measured, engines, again = {}, {}, {}
            for trace in CPU_TRACES:
                file = f"{folder}/{trace}.jsonl"
                # Attention makes long prompts slower, so the line goes through prompts of the trace's mean length.
                length = str(round(mean_prompt(file)))
                calibrate = [longboat, "simulate", "calibrate", engine, "--model", "qwen", "--prompt-tokens", length,
                             "--max-num-seqs", CPU_LIMIT]
                engines[trace] = run(calibrate)
                measured[trace] = replay(address, "qwen", file)
                again[trace] = run(calibrate)
                print(f"{policy}, {trace}: {engines[trace]}; after the run: {again[trace]}", file=sys.stderr)
        for trace in CPU_TRACES:
            flags = f"{engines[trace]} --max-num-batched-tokens {CPU_BATCHED_TOKENS}"
            predicted = predict(longboat, service, f"{folder}/{trace}.jsonl", flags)
            with open(f"{folder}/{trace}-{policy}.json", "w") as text:
                json.dump({"engine": flags, "engine_after": again[trace], "predicted": predicted,
                           "measured": measured[trace]}, text)


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def mean_prompt(trace):
    with open(trace) as lines:
        return statistics.mean(sum(length for _, length in json.loads(line)["segments"]) for line in lines)


def table(folder, traces):
    print("| trace | policy | TTFT p50, predicted | measured | difference | hit ratio, predicted | measured | ITL p50 |")
    print("|---|---|---|---|---|---|---|---|")
    for trace in traces:
        pairs = []
        for policy in POLICIES:
            file = f"{folder}/{trace}-{policy}.json"
            if not os.path.exists(file):
                continue
            with open(file) as text:
                result = json.load(text)
            predicted, measured = result["predicted"], result["measured"]
            ttft = [side["ttft"]["p50"] for side in (predicted, measured)]
            difference = ttft[0] / ttft[1] - 1
            pairs.append(ttft)
            hits = [side["hit_ratio"] for side in (predicted, measured)]
            itl = predicted["itl"]["p50"] / measured["itl"]["p50"] - 1
            missed = " (missed)" if abs(difference) > WITHIN else ""
            print(f"| {trace} | {policy} | {ttft[0]:.0f} ms | {ttft[1]:.0f} ms | {difference * 100:+.0f} %{missed} "
                  f"| {hits[0] * 100:.1f} % | {hits[1] * 100:.1f} % | {itl * 100:+.0f} % |")
        # Two policies closer to each other than the error of a prediction have no order.
        clear = [(a, b) for a in pairs for b in pairs if a[1] < b[1] * (1 - WITHIN)]
        wrong = [(a, b) for a, b in clear if a[0] >= b[0]]
        print(f"\n{trace}: {len(clear) - len(wrong)} of {len(clear)} clear differences predicted in the same direction\n")


def main():
    longboat, folder, chosen = sys.argv[1], sys.argv[2], sys.argv[3:]
    os.makedirs(folder, exist_ok=True)
    model = chosen[1] if chosen[:1] == ["--cpu"] else None
    for trace, flags in (CPU_TRACES if model else TRACES).items():
        subprocess.run([longboat, "simulate", *flags.split(), "--write-trace", f"{folder}/{trace}.jsonl"], check=True)
    if model:
        compare_cpu(longboat, folder, model)
        return table(folder, CPU_TRACES)
    for trace in TRACES:
        file = f"{folder}/{trace}.jsonl"
        for policy, scorers in POLICIES.items():
            result = f"{folder}/{trace}-{policy}.json"
            if (chosen and f"{policy}/{trace}" not in chosen) or os.path.exists(result):
                continue
            service = f"{folder}/{policy}.yaml"
            with open(service, "w") as text:
                json.dump(manifest(scorers), text)
            both = {"predicted": predict(longboat, service, file), "measured": measure(longboat, service, file)}
            with open(result, "w") as text:
                json.dump(both, text)
    table(folder, TRACES)


main()
