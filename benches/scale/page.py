#!/usr/bin/env python3
"""Writes docs/scale.md from measurements.

    page.py LONGBOAT [pickers] [picks] [scraping] [controller]

LONGBOAT is a release build. Each part is measured again and kept in measured.json; without a part, all are. `page.py` alone
writes the page from what is kept. What the gateway and a request through the picker cost is read from benches/README.md.
"""

import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import controller
import scraping

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_name("measured.json")
PAGE = ROOT / "docs/scale.md"
SIZES = (10, 100, 1000, 10000)
RATES = (100, 5000, 50000)
ENDPOINTS = (10, 100, 1000)
SCRAPES_PER_SECOND = 20
# The preset's limit of a picker's processors, and how much of it is planned for.
PICKER_CORES = 6
USE = 0.7
# Of an endpoint: the tokens that its KV cache holds.
TOKENS = 500_000


def example(package, name):
    command = ["cargo", "run", "--release", "--quiet", "--locked", "-p", package, "--example", name]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def measure(longboat, part):
    say = lambda row: print(f"{part}: {row}", file=sys.stderr)  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        match part:
            case "pickers":
                return example("longboat-simulate", "scale")
            case "picks":
                return [json.loads(line) for line in example("longboat-scheduler", "picks").splitlines()]
            case "scraping":
                return scraping.measure(longboat, Path(folder), say)
            case "controller":
                return controller.measure(longboat, Path(folder), say)
    raise SystemExit(f"`{part}`: expected pickers, picks, scraping or controller")


def table(head, rows):
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def bench(name, column):
    """A number of benches/README.md: of the first row whose first cell is `name`."""
    for line in (ROOT / "benches/README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == name:
            return float(re.match(r"[\d.]+", cells[column])[0])
    raise SystemExit(f"benches/README.md has no row `{name}`")


def index_limit(name):
    """The most blocks of a picker that reads KV cache events: by default (`ENTRIES`), and at most (`MAX_ENTRIES`)."""
    source = (ROOT / "crates/scheduler/src/producers/precise_prefix.rs").read_text()
    return 1 << int(re.search(rf"^const {name}: usize = 1 << (\d+);$", source, re.M)[1])


def number(value):
    """A number for people, with about two digits."""
    if value >= 100:
        return f"{round(value, -int(math.log10(value)) + 1):,.0f}"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def between(points, size):
    """The value at a size, on the line through its neighbours among the measured ones."""
    points = sorted(points)
    for (first, low), (last, high) in zip(points, points[1:]):
        if size <= last or (last, high) == points[-1]:
            return low + (high - low) * (size - first) / (last - first)
    return points[0][1]


def picks(rows):
    head = ("endpoints", "prefixes known by", "blocks held", "CPU for a decision", "decisions a second and core", "memory of a block",
            "for a million tokens held")
    names = {"memory": "own memory", "events": "KV cache events"}
    return table(head, [
        (row["endpoints"], names[row["knows"]], f"{row['blocks']:,}", f"{number(row['nanoseconds'] / 1000)} µs",
         number(1e9 / row["nanoseconds"]), f"{number(row['bytes'] / row['blocks'])} bytes",
         f"{number(row['bytes'] / row['blocks'] / row['tokens_of_block'])} MB") for row in rows])


def scrapes(rows):
    head = ("endpoints", "each read every", "CPU for a page", "cores at this interval", "cores every 50 ms", "memory of the picker")
    return table(head, [
        (row["endpoints"], f"{row['interval_ms']} ms", f"{number(row['page_us'])} µs",
         number(row["endpoints"] * row["page_us"] / row["interval_ms"] / 1000),
         number(row["endpoints"] * SCRAPES_PER_SECOND * row["page_us"] / 1e6), f"{number(row['memory'])} MiB") for row in rows])


def controllers(rows):
    head = ("services", "a new service: CPU, requests that write", "its pods become available", "a change of one", "without a change",
            "memory (peak)", "a restart: CPU, writes, memory, ready after", "page of metrics: CPU, size")
    cost = lambda of: f"{number(of['cpu_ms'])} ms, {of['writes']:.1f}"  # noqa: E731
    lines = []
    for row in rows:
        restart = row["restart"]
        lines.append((
            f"{row['services']:,}", cost(row["created"]), cost(row["available"]), cost(row["change"]),
            f"{number(row['idle']['cpu_ms'])} ms of CPU a second", f"{number(row['memory'])} ({number(row['peak'])}) MiB",
            f"{number(restart['cpu_ms'] / 1000)} s, {restart['writes']:.0f}, {number(restart['peak'])} MiB, {number(restart['ready_after'])} s",
            f"{number(row['page_ms'])} ms, {number(row['page_bytes'] / 1e6)} MB"))
    return table(head, lines)


def controller_plan(rows):
    measured = {row["services"] for row in rows}
    of = lambda value: [(row["services"], value(row)) for row in rows]  # noqa: E731
    memory = of(lambda row: max(row["peak"], row["restart"]["peak"]))
    lines = []
    for size in SIZES:
        need = between(memory, size)
        request = max(64, math.ceil(need * 1.25 / 64) * 64)
        page = between(of(lambda row: row["page_ms"]), size)
        interval = next(seconds for seconds in (15, 30, 60, 120, 300) if page / seconds < 10 or seconds == 300)
        lines.append((f"{size:,}", "2", f"{request} MiB", "100m, no limit",
                      f"{number(max(0.1, between(of(lambda row: row['restart']['cpu_ms']), size) / 1000))} s of a core", f"{interval} s",
                      "measured" if size in measured else "derived"))
    head = ("services", "replicas", "memory request and limit", "CPU request", "work after a restart", "Prometheus reads its metrics every",
            "memory is")
    return table(head, lines)


def picker_plan(rows, pages):
    decision = {(row["knows"], row["endpoints"]): row["nanoseconds"] / 1e6 for row in rows}
    of_block = {(row["knows"], row["endpoints"]): row["bytes"] / row["blocks"] for row in rows}
    tokens_of_block = {row["knows"]: row["tokens_of_block"] for row in rows}
    page = {row["endpoints"]: row["page_us"] for row in pages}
    resident = {row["endpoints"]: row["memory"] for row in pages}
    request = bench("1 KB, 500/s", 3)
    lines = []
    for endpoints in ENDPOINTS:
        blocks = {knows: endpoints * TOKENS / tokens for knows, tokens in tokens_of_block.items()}
        blocks["events"] = min(blocks["events"], index_limit("ENTRIES"))
        memory = [number(resident[endpoints] + blocks[knows] * of_block[knows, endpoints] / 2**20) for knows in ("memory", "events")]
        # At most half a core for metrics, and at most a second, because older ones are as good as none under load.
        interval = min(1000, max(50, math.ceil(endpoints * page[endpoints] / 0.5 / 1000 / 50) * 50))
        for rate in RATES:
            cells = []
            for knows, size in zip(("memory", "events"), memory):
                each = request + decision[knows, endpoints] - decision["memory", 10]
                cores = rate * each / 1000 + endpoints * page[endpoints] / interval / 1000
                cells.append(f"{math.ceil(cores / (PICKER_CORES * USE))}: {number(max(cores, 0.05))} cores in all, {size} MiB each")
            lines.append((f"{endpoints:,}", f"{rate:,}", *cells, f"{interval} ms"))
    head = ("endpoints of the pool", "requests a second", "pickers with prefixes of their own", "pickers with KV cache events",
            "`--refresh-metrics-interval`")
    return table(head, lines)


def gateway_plan():
    low, high = bench("gateway, picks itself", 2), bench("gateway, picks itself", 4)
    through = bench("gateway, picker over ext_proc", 4)
    alone = through - high
    lines = [(f"{rate:,}", f"{number(rate * high / 1000)} to {number(rate * low / 1000)}",
              f"{number(rate * through / 1000)} to {number(rate * (low + alone) / 1000)}") for rate in RATES]
    return table(("requests a second", "cores in all, picking in the gateway", "cores in all, with pickers"), lines)


def page(kept):
    rows, first = kept["controller"], kept["controller"][0]
    last = rows[-1]
    slope = (last["peak"] - first["peak"]) / max(1, last["services"] - first["services"])
    limit = first["services"] + (300 - first["peak"]) / slope
    values = {
        "picks": picks(kept["picks"]), "scrapes": scrapes(kept["scraping"]), "pickers": re.sub("\n{3,}", "\n\n", kept["pickers"]).strip(),
        "controllers": controllers(rows), "controller_plan": controller_plan(rows), "gateway_plan": gateway_plan(),
        "picker_plan": picker_plan(kept["picks"], kept["scraping"]), "request": bench("1 KB, 500/s", 3),
        "tokens": f"{TOKENS:,}", "slope": number(slope * 1024), "limit": number(limit),
        "index": f"{index_limit('ENTRIES'):,}", "most_index": f"{index_limit('MAX_ENTRIES'):,}", "use": f"{USE * 100:.0f}", "cores": PICKER_CORES,
    }
    return Path(__file__).with_name("page.template").read_text().format(**values)


def main():
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if len(sys.argv) > 1:
        for part in sys.argv[2:] or ("picks", "scraping", "pickers", "controller"):
            kept[part] = measure(sys.argv[1], part)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(page(kept))


if __name__ == "__main__":
    main()
