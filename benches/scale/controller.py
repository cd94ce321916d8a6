"""What the controller costs by the number of services: its CPU time, memory and requests on the embedded API server.

The API server is another process, `longboat apiserver`, in memory. It calls the webhooks. Nothing makes pods, so this module also
writes the status of Deployments, as their controller would.
"""

import concurrent.futures
import http.client
import json
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIZES = (1000, 5000, 10000)
NAMESPACES = 10
CLIENTS = 8
# Services that are changed one by one at each size.
CHANGES = 10
IDLE_SECONDS = 30
PAGES = 10
# The controller is at rest when it has used at most a tick of CPU time for so long.
REST_SECONDS = 5
TICKS = os.sysconf("SC_CLK_TCK")
SERVICES = "/apis/serving.kserve.io/v1alpha2/namespaces/scale-{}/llminferenceservices"
WRITES = ("POST", "PUT", "PATCH", "DELETE")


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Api:
    """A client of the API server, with a connection for each thread."""

    def __init__(self, port):
        self.port, self.local = port, threading.local()

    def send(self, method, path, body=None, kind="application/json"):
        # The server closes connections that are idle.
        if not hasattr(self.local, "connection") or time.monotonic() - self.local.used > 1:
            self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            self.local.connection.connect()
            self.local.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.local.connection.request(method, path, text if body is not None else None, {"Content-Type": kind})
        answer = self.local.connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise Refused(answer.status, f"{method} {path}: {answer.status} {content[:500]!r}")
        self.local.used = time.monotonic()
        return json.loads(content)

    def apply(self, path, manifest):
        self.send("PATCH", f"{path}?fieldManager=scale&force=true", manifest, "application/apply-patch+yaml")

    def merge(self, path, change):
        self.send("PATCH", path, change, "application/merge-patch+json")

    def each(self, function, items):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(function, items))


class Process:
    """A running program, its CPU time and memory."""

    def __init__(self, command, log, **more):
        with open(log, "w") as output:
            self.child = subprocess.Popen(command, stdout=output, stderr=output, **more)

    def cpu(self):
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self, name="VmRSS"):
        found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{self.child.pid}/status").read_text())
        return int(found[1]) / 1024

    def end(self):
        self.child.terminate()
        self.child.wait()


class Controller(Process):
    def __init__(self, longboat, folder, port, webhooks):
        self.metrics, probes = free_port(), free_port()
        config = folder / "kubeconfig"
        config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "scale",
            "clusters": [{"name": "scale", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "scale", "user": {}}],
            "contexts": [{"name": "scale", "context": {"cluster": "scale", "user": "scale"}}]}))
        flags = ["--webhook-host=127.0.0.1", "--webhook-san=127.0.0.1", f"--webhook-port={webhooks}", "--metrics-secure=false",
                 f"--metrics-addr=127.0.0.1:{self.metrics}", f"--health-probe-addr=127.0.0.1:{probes}",
                 "--storage-migration=false", "--zap-log-level=error"]
        super().__init__([longboat, "controller", *flags], folder / "controller.log", env={**os.environ, "KUBECONFIG": config})
        started = time.monotonic()
        while self.child.poll() is None and not self.answers(probes):
            time.sleep(0.02)
        if self.child.poll() is not None:
            raise SystemExit((folder / "controller.log").read_text())
        self.ready_after = time.monotonic() - started

    def answers(self, port):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def page(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics, timeout=60)
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()

    def requests(self):
        """The requests to the API server so far, by method, and those that were refused as `refused`."""
        counts = {}
        for line in self.page().splitlines():
            if line.startswith("rest_client_requests_total{"):
                labels, value = dict(re.findall(r'(\w+)="([^"]*)"', line)), float(line.rsplit(" ", 1)[1])
                for name in (labels["method"], *(["refused"] if labels["code"] >= "400" else [])):
                    counts[name] = counts.get(name, 0) + int(value)
        return counts

    def rest(self):
        """Waits until the controller is at rest, and returns its CPU time."""
        before, since = self.cpu(), time.monotonic()
        while time.monotonic() - since < REST_SECONDS:
            time.sleep(0.5)
            if (now := self.cpu()) - before > 1.5 / TICKS:
                before, since = now, time.monotonic()
        return self.cpu()

    def start_of_work(self):
        """CPU time and requests of the controller at rest. The page with the counts costs CPU time, so it is read first."""
        self.rest()
        requests = self.requests()
        return self.cpu(), requests


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def difference(controller, before, number):
    """What the controller has done since `before`, for each of `number` services."""
    cpu = controller.rest()
    requests = controller.requests()
    counts = {name: count - before[1].get(name, 0) for name, count in requests.items()}
    return {"cpu_ms": (cpu - before[0]) * 1000 / number, "refused": counts.get("refused", 0) / number,
            "writes": sum(counts.get(name, 0) for name in WRITES) / number, "reads": counts.get("GET", 0) / number}


def install(longboat, api, webhooks):
    for file in sorted((ROOT / "deploy/crds").glob("*_*.yaml")):
        text = file.read_text()
        if "serving.kserve.io_llm" not in file.name:
            name = re.search(r"^  name: (\S+)$", text, re.M)[1]
            api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", text.encode())
    command = [longboat, "install", "--dry-run", "-o", "json", "--set=image=scale", f"--set=webhookUrl=https://127.0.0.1:{webhooks}"]
    items = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["items"]
    for item in items:
        group, _, version = item["apiVersion"].rpartition("/")
        resources = api.send("GET", f"/apis/{group}/{version}" if group else "/api/v1")["resources"]
        found = next(entry for entry in resources if entry["kind"] == item["kind"] and "/" not in entry["name"])
        place = f"/namespaces/{item['metadata']['namespace']}" if found["namespaced"] else ""
        root = f"/apis/{group}/{version}" if group else "/api/v1"
        # Webhooks come last: nobody answers them yet.
        if "Webhook" not in item["kind"]:
            api.apply(f"{root}{place}/{found['name']}/{item['metadata']['name']}", item)
        if item["kind"] == "CustomResourceDefinition":
            wait_for(api, item)
    gateway = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "kserve-ingress-gateway"},
               "spec": {"gatewayClassName": "scale", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}}
    api.send("POST", "/apis/gateway.networking.k8s.io/v1/namespaces/kserve/gateways", gateway)
    for number in range(NAMESPACES):
        api.send("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"scale-{number}"}})
    return [item for item in items if "Webhook" in item["kind"]]


def wait_for(api, definition):
    group = definition["spec"]["group"]
    while not any(entry["name"] == group for entry in api.send("GET", "/apis")["groups"]):
        time.sleep(0.1)


def service(number):
    return {"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": f"llm-{number}"},
            "spec": {"model": {"uri": "hf://org/model", "name": f"org/model-{number}"}, "replicas": 1,
                     "router": {"route": {}, "gateway": {}, "scheduler": {}}}}


def create(api, number):
    """Creates a service. On a busy machine the webhook may take longer than the API server waits, which then answers 500."""
    while True:
        try:
            return api.send("POST", SERVICES.format(number % NAMESPACES), service(number))
        except Refused as error:
            if error.status != 500:
                raise


def make_available(api):
    """Writes the status of all Deployments that are not available yet."""
    def write(deployment):
        metadata, replicas = deployment["metadata"], deployment["spec"].get("replicas", 1)
        path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/deployments/{metadata['name']}/status"
        status = {"observedGeneration": metadata["generation"], "conditions": [{"type": "Available", "status": "True"}]}
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        api.merge(path, {"status": {**status, **dict.fromkeys(counts, replicas)}})
    namespaces = (api.send("GET", f"/apis/apps/v1/namespaces/scale-{number}/deployments")["items"] for number in range(NAMESPACES))
    api.each(write, [item for items in namespaces for item in items if not item.get("status", {}).get("availableReplicas")])


def at_size(api, controller, size, last):
    """Creates services until there are so many, and measures what they and changes of single ones cost."""
    before, started, new = controller.start_of_work(), time.monotonic(), size - last
    api.each(lambda number: create(api, number), range(last, size))
    created = difference(controller, before, new)
    created["seconds"] = time.monotonic() - started - REST_SECONDS
    before = controller.start_of_work()
    make_available(api)
    available = difference(controller, before, new)
    result = {"services": size, "created": created, "available": available, "memory": controller.memory()}
    before = controller.start_of_work()
    for number in range(CHANGES):
        api.merge(f"{SERVICES.format(number % NAMESPACES)}/llm-{number}", {"spec": {"replicas": size}})
        time.sleep(0.3)
    result["change"] = difference(controller, before, CHANGES)
    requests, before = controller.requests(), controller.cpu()
    time.sleep(IDLE_SECONDS)
    cpu = (controller.cpu() - before) * 1000 / IDLE_SECONDS
    result["idle"] = {"cpu_ms": cpu, "requests": sum(controller.requests().values()) - sum(requests.values())}
    before = controller.cpu()
    result["page_bytes"] = [len(controller.page()) for _ in range(PAGES)][0]
    result["page_ms"] = (controller.cpu() - before) * 1000 / PAGES
    result["peak"] = controller.memory("VmHWM")
    return result


def measure(longboat, folder, log):
    """One row for each size: the cost for each new service, for a change of one, without changes, and of a restart."""
    rows, last, port_file = [], 0, folder / "port"
    server = Process([longboat, "apiserver", "--listen=127.0.0.1:0", "--no-auth", "--port-file", str(port_file)],
                     folder / "apiserver.log")
    controller = None
    try:
        while not port_file.exists() or not port_file.read_text().strip():
            time.sleep(0.05)
        port, webhooks = int(port_file.read_text()), free_port()
        api = Api(port)
        hooks = install(longboat, api, webhooks)
        controller = Controller(longboat, folder, port, webhooks)
        for hook in hooks:
            name = {"Mutating": "mutatingwebhookconfigurations"}.get(hook["kind"][:8], "validatingwebhookconfigurations")
            api.apply(f"/apis/admissionregistration.k8s.io/v1/{name}/{hook['metadata']['name']}", hook)
        for size in SIZES:
            row = at_size(api, controller, size, last)
            controller.end()
            controller = Controller(longboat, folder, port, webhooks)
            row["restart"] = {**difference(controller, (0, {}), 1), "ready_after": controller.ready_after,
                              "peak": controller.memory("VmHWM")}
            rows.append(row)
            log(row)
            last = size
    finally:
        for process in filter(None, (controller, server)):
            process.end()
    return rows
