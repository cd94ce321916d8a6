#!/usr/bin/env python3
"""CPU per request of `longboat up` with the picker in its pod (ext_proc) and in the gateway, in one run.

Both run at the same time and get batches of requests in turn. Counts user and system time of the process of `up`, which has the
gateway, and of the process of the picker; what they use without requests is measured before and subtracted. Engines do not count.

    benches/picking.py [REQUESTS] [BINARY]
"""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
BINARY = sys.argv[2] if len(sys.argv) > 2 else str(ROOT / "target/debug/longboat")
MANIFEST = ROOT / "examples/single-node/service.yaml"
PATH = "/default/qwen/v1/chat/completions"
THREADS = 4
BATCHES = 4
IDLE_SECONDS = 5
START_SECONDS = 300
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def stat(pid):
    """The parent and the used CPU time of a process, in milliseconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) * TICK_MS


def picker_of(up):
    for path in pathlib.Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            parent, _ = stat(path.name)
            name = (path / "cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue
        if parent == up and name.rsplit(b"/", 1)[-1] == b"epp":
            return int(path.name)
    raise SystemExit(f"process {up} has no picker")


class Side:
    def __init__(self, picking):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.picking = picking
        command = [BINARY, "up", str(MANIFEST), "--engine", "sim", "--picking", picking, "--port", str(self.port)]
        self.up = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ready(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.up.poll() is None:
            try:
                if self.ask(self.connect(), False):
                    self.pids = [self.up.pid, picker_of(self.up.pid)]
                    return
            except OSError:
                pass
            time.sleep(0.5)
        raise SystemExit(f"`up --picking {self.picking}` does not answer")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, connection, stream):
        body = {"model": "Qwen/Qwen2.5-0.5B-Instruct", "stream": stream, "ignore_eos": True}
        body |= {"max_tokens": 32 if stream else 1, "messages": [{"role": "user", "content": "why? " * 200}]}
        connection.request("POST", PATH, json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status == 200 and response.headers.get("x-went-into-resp-headers") == "true"

    def batch(self, count, stream):
        """Sends requests, and returns the CPU milliseconds of gateway and picker, without those of idling."""

        def work():
            connection = self.connect()
            for _ in range(count // THREADS):
                if not self.ask(connection, stream):
                    failed.append(1)

        failed = []
        before, began = self.used(), time.monotonic()
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
        if failed:
            raise SystemExit(f"{len(failed)} requests failed")
        return [after - used - idle * took for after, used, idle in zip(self.used(), before, self.idle)]

    def used(self):
        return [stat(pid)[1] for pid in self.pids]


def main():
    sides = [Side("pods"), Side("gateway")]
    try:
        for side in sides:
            side.ready()
        for side in sides:
            side.idle = [0, 0]
            side.batch(THREADS * 25, False)
        time.sleep(IDLE_SECONDS)
        before = [side.used() for side in sides]
        time.sleep(IDLE_SECONDS)
        for side, used in zip(sides, before):
            side.idle = [(after - used) / IDLE_SECONDS for after, used in zip(side.used(), used)]
            print(f"{side.picking}: idle, ms of CPU a second: up {side.idle[0]:.0f}, picker {side.idle[1]:.0f}")
        for stream in [False, True]:
            count = REQUESTS // BATCHES // THREADS * THREADS
            totals = [[0.0, 0.0] for _ in sides]
            for _ in range(BATCHES):
                for side, total in zip(sides, totals):
                    for index, used in enumerate(side.batch(count, stream)):
                        total[index] += used
            kind = "32 streamed tokens" if stream else "one token"
            for side, total in zip(sides, totals):
                gateway, picker = (used / (count * BATCHES) for used in total)
                print(
                    f"{side.picking}: {kind}, {count * BATCHES} requests, ms of CPU each: gateway {gateway:.3f}, "
                    f"picker {picker:.3f}, together {gateway + picker:.3f}"
                )
    finally:
        for side in sides:
            side.up.terminate()
        for side in sides:
            side.up.wait()


main()
