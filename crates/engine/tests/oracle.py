"""Records what llama.cpp answers, for tests/engine/real_model.rs: greedy tokens and tokenised texts on the unmodified weights,
and on the same weights as F16.

    python -m venv V && V/bin/pip install xllamacpp==2026.10.11549
    V/bin/python oracle.py MODEL.gguf > recorded.json
    V/bin/python as_f16.py MODEL.gguf HALVES.gguf    # this one needs numpy
    V/bin/python oracle.py HALVES.gguf > recorded_f16.json

Keys and values are kept in f32, as the engine keeps them, and one thread computes.
"""

import json
import sys
import urllib.request

import xllamacpp

STORY = "The old lighthouse keeper counted the ships that passed in the night, and wrote each name in his book. "
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "Water boils at",
    "def fibonacci(n):\n    ",
    "fn main() {\n    let mut sum = 0;\n    for i in 0..10 {",
    "1, 1, 2, 3, 5, 8, 13, 21,",
    "In 1969, 2 of the 3 astronauts of mission 11 walked",
    "Der schnelle braune Fuchs springt über den",
    "日本の首都は",
    "Café, naïve, 🙂🚀 and Ünïcödé:",
    "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n",
    "   leading spaces,\t\ttabs\n\n\nand 12345678901234567890",
    STORY * 28 + "In the morning he",
]
LENGTH = 24


def main(model):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = 2048
    params.n_parallel = 1
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cache_type_k = xllamacpp.ggml_type.GGML_TYPE_F32
    params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.port = 0
    server = xllamacpp.Server(params)

    def post(path, body):
        request = urllib.request.Request(
            server.listening_address + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        return json.load(urllib.request.urlopen(request))

    recorded = []
    for prompt in PROMPTS:
        tokens = post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})["tokens"]
        body = {"prompt": tokens, "n_predict": LENGTH, "temperature": 0, "return_tokens": True, "n_probs": 2,
                "cache_prompt": False, "ignore_eos": True}
        answer = post("/completion", body)
        gaps = []
        for step in answer["completion_probabilities"]:
            first, second = (top["logprob"] for top in step["top_logprobs"][:2])
            gaps.append(round(first - second, 4))
        recorded.append({"prompt": prompt, "tokens": tokens, "answer": answer["tokens"], "text": answer["content"],
                         "gaps": gaps})
    json.dump(recorded, sys.stdout, ensure_ascii=False, indent=1)
    print()


main(sys.argv[1])
