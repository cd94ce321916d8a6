#!/usr/bin/env python3
"""Sends a trace of `longboat simulate --write-trace` to a running service, and prints what its clients see.

    replay.py URL MODEL TRACE [SPEED]

URL is the address of the service, without /v1. The numbers are those that `longboat simulate` predicts: the time to the first
token, the mean time between tokens, and the share of prompt tokens that were cached, as `usage` says.
"""

import http.client
import json
import sys
import threading
import time
import urllib.parse

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
VOCABULARY = 30_000
REQUEST_TIMEOUT_SECONDS = 120


def mix(number):
    mixed = (number + STEP) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return mixed ^ (mixed >> 31)


def tokens(request, number):
    """The tokens of a prompt, as `TracePrompt::bytes` makes them."""
    if "token_ids" in request:
        return request["token_ids"]
    segments = request.get("segments") or [[MASK, request["prompt_tokens"]]]
    made = []
    for place, (segment, count) in enumerate(segments):
        if segment == MASK:
            segment = mix(number ^ mix(place)) | 1 << 63
        state = mix(segment)
        for _ in range(count):
            state = (state + STEP) & MASK
            made.append(mix(state) * VOCABULARY >> 64)
    return made


def send(url, body, output, length, at, results):
    time.sleep(max(0.0, at - time.monotonic()))
    first = last = usage = None
    sent = time.monotonic()
    try:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=REQUEST_TIMEOUT_SECONDS)
        connection.request("POST", f"{url.path}/v1/completions", body, {"content-type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            results.append(None)
            return
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            if event["choices"]:
                last = time.monotonic()
                first = first or last
    except (OSError, http.client.HTTPException):
        results.append(None)
        return
    details = (usage or {}).get("prompt_tokens_details") or {}
    results.append((first - sent, (last - first) / max(output - 1, 1), last - sent, length, details.get("cached_tokens") or 0,
                    output))


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] * 1000


def replay(address, model, trace, speed=1.0):
    """Sends the trace. Returns what the clients saw: times in milliseconds, and shares."""
    url = urllib.parse.urlsplit(address.rstrip("/"))
    with open(trace) as lines:
        requests = [json.loads(line) for line in lines]
    prepared = []
    for number, request in enumerate(requests):
        prompt, output = tokens(request, number), request["output_tokens"]
        body = {"model": model, "prompt": prompt, "max_tokens": output, "min_tokens": output, "ignore_eos": True,
                "stream": True, "stream_options": {"include_usage": True}}
        prepared.append((json.dumps(body), output, len(prompt), request["at_ms"] / 1000 / speed))
    results = []
    begun = time.monotonic() + 1
    threads = [threading.Thread(target=send, args=(url, body, output, length, begun + at, results))
               for body, output, length, at in prepared]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    good = [result for result in results if result]
    measured = {"requests": len(results), "answered": len(good)}
    for name, place in (("ttft", 0), ("itl", 1), ("e2e", 2)):
        values = [result[place] for result in good if place != 1 or result[5] > 1]
        measured[name] = {f"p{int(share * 100)}": quantile(values, share) for share in (0.5, 0.9, 0.99)}
    measured["hit_ratio"] = sum(result[4] for result in good) / sum(result[3] for result in good)
    return measured


def main():
    speed = float(sys.argv[4]) if len(sys.argv) > 4 else 1.0
    measured = replay(sys.argv[1], sys.argv[2], sys.argv[3], speed)
    print(f"{measured['answered']} of {measured['requests']} answered")
    for name in ("ttft", "itl", "e2e"):
        print(f"{name}: " + " ".join(f"{share} {value:.1f} ms" for share, value in measured[name].items()))
    print(f"hit ratio: {measured['hit_ratio']:.3f}")


if __name__ == "__main__":
    main()
