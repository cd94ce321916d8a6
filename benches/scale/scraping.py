"""What reading metrics costs a picker, by the number of endpoints: its CPU time for a page, and its memory, without requests."""

import json
import time

from controller import Process

# Endpoints, and the interval in milliseconds at which each is read. A machine of two cores cannot serve 20,000 pages a second.
CASES = ((10, 50), (100, 100), (1000, 1000))
ENGINES = 10
SECONDS = 20
CONFIG = """apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {{type: file-discovery, parameters: {{path: '{file}'}}}}
- type: approx-prefix-cache-producer
- type: inflight-load-producer
- type: prefix-cache-affinity-filter
- type: token-load-scorer
schedulingProfiles:
- {{name: default, plugins: [{{pluginRef: prefix-cache-affinity-filter}}, {{pluginRef: token-load-scorer}}]}}
dataLayer: {{discovery: {{endpoints: {{pluginRef: file-discovery}}}}}}
"""


def picker(longboat, folder, endpoints, interval):
    # Some endpoints are the same engine under several names.
    found = [{"name": f"e{number}", "address": f"127.0.5.{number % ENGINES + 1}", "port": "8000"} for number in range(endpoints)]
    file = folder / f"endpoints-{endpoints}.json"
    file.write_text(json.dumps({"endpoints": found}))
    flags = ["--bind-address=127.0.0.1", "--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0", "--decisions=0",
             "--zap-log-level=error", f"--refresh-metrics-interval={interval}ms", "--config-text", CONFIG.format(file=file)]
    return Process([longboat, "epp", *flags], folder / "picker.log")


def measure(longboat, folder, log):
    rows = []
    engines = [Process([longboat, "sim", "model", f"--host=127.0.5.{number + 1}", "--port=8000"], folder / f"engine-{number}.log")
               for number in range(ENGINES)]
    try:
        time.sleep(1)
        for endpoints, interval in CASES:
            process = picker(longboat, folder, endpoints, interval)
            try:
                # The first pages come over new connections.
                time.sleep(5)
                before = process.cpu()
                time.sleep(SECONDS)
                cpu = process.cpu() - before
                pages = endpoints * SECONDS * 1000 / interval
                rows.append({"endpoints": endpoints, "interval_ms": interval, "page_us": cpu * 1e6 / pages,
                             "memory": process.memory()})
                log(rows[-1])
            finally:
                process.end()
    finally:
        for engine in engines:
            engine.end()
    return rows
