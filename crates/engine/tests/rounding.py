"""Shows how far rounding moves log probabilities, for the comments in tests/engine/real_model.rs: a plain forward pass of a Llama model, with
the rows of queries and keys in the order of GGUF files and in that of safetensors, which differ in nothing but the order of additions.

    python3 as_f16.py MODEL.gguf HALVES.gguf
    python3 rounding.py HALVES.gguf recorded_f16.json
"""

import json
import pathlib
import sys

import gguf_files
import numpy

# The numbers of a block, which share a scale.
BLOCK = 32
# Long prompts take too long.
LONGEST = 100
# Every sixth position of an answer.
STEP = 6
# The likeliest tokens that are compared.
LIKELIEST = 20


def eight_bits(numbers, scale_type):
    """Numbers rounded to 8 bits, with a scale per block."""
    blocks = numbers.reshape(-1, BLOCK)
    scales = numpy.abs(blocks).max(1, keepdims=True) / numpy.float32(127)
    whole = numpy.round(blocks / numpy.where(scales > 0, scales, 1))
    return (whole * scales.astype(scale_type).astype(numpy.float32)).reshape(numbers.shape)


class Model:
    def __init__(self, metadata, tensors, rounds, halves, change=0.0):
        """`rounds`: weights and activations to 8 bits. `halves`: the order of safetensors. `change`: of normalised activations."""
        get = lambda key: metadata["llama." + key]
        self.layers, self.heads, self.kv_heads = get("block_count"), get("attention.head_count"), get("attention.head_count_kv")
        self.epsilon, self.base = numpy.float32(get("attention.layer_norm_rms_epsilon")), get("rope.freq_base")
        self.rounds, self.halves, self.change = rounds, halves, change
        self.random = numpy.random.default_rng(0)
        self.weights = {}
        for name, numbers in tensors.items():
            for part, count in [(".attn_q.", self.heads), (".attn_k.", self.kv_heads)]:
                if halves and part in name:
                    numbers = gguf_files.halves_from_neighbours(numbers, count)
            self.weights[name] = eight_bits(numbers, numpy.float16) if rounds and numbers.ndim == 2 else numbers

    def multiply(self, rows, name):
        rows = eight_bits(rows, numpy.float32) if self.rounds else rows
        return rows @ self.weights[name + ".weight"].T

    def normalise(self, rows, name):
        scale = 1 / numpy.sqrt((rows * rows).mean(1, keepdims=True) + self.epsilon)
        rows = rows * (scale * self.weights[name + ".weight"])
        return rows * (1 + self.change * self.random.standard_normal(rows.shape)).astype(numpy.float32)

    def turn(self, rows, heads):
        count, width = len(rows), rows.shape[1] // heads
        rows = rows.reshape(count, heads, width)
        angles = numpy.outer(numpy.arange(count), self.base ** (-numpy.arange(0, width, 2) / width))[:, None]
        cosines, sines = numpy.cos(angles).astype(numpy.float32), numpy.sin(angles).astype(numpy.float32)
        first, second = (slice(width // 2), slice(width // 2, width)) if self.halves else (slice(0, width, 2), slice(1, width, 2))
        turned = numpy.empty_like(rows)
        turned[..., first] = rows[..., first] * cosines - rows[..., second] * sines
        turned[..., second] = rows[..., first] * sines + rows[..., second] * cosines
        return turned

    def attend(self, queries, keys, values):
        count, heads, width = queries.shape
        later = numpy.triu(numpy.full((count, count), -numpy.inf, numpy.float32), 1)
        found = numpy.empty_like(queries)
        for head in range(heads):
            shared = head // (heads // self.kv_heads)
            scores = queries[:, head] @ keys[:, shared].T / numpy.float32(width**0.5) + later
            scores = numpy.exp(scores - scores.max(1, keepdims=True))
            found[:, head] = scores / scores.sum(1, keepdims=True) @ values[:, shared]
        return found.reshape(count, -1)

    def log_probabilities(self, tokens):
        """Those of the next token."""
        rows = self.weights["token_embd.weight"][tokens]
        for layer in range(self.layers):
            name = f"blk.{layer}."
            read = self.normalise(rows, name + "attn_norm")
            queries = self.turn(self.multiply(read, name + "attn_q"), self.heads)
            keys = self.turn(self.multiply(read, name + "attn_k"), self.kv_heads)
            values = self.multiply(read, name + "attn_v").reshape(keys.shape)
            rows = rows + self.multiply(self.attend(queries, keys, values), name + "attn_output")
            read = self.normalise(rows, name + "ffn_norm")
            gate, up = self.multiply(read, name + "ffn_gate"), self.multiply(read, name + "ffn_up")
            rows = rows + self.multiply(gate / (1 + numpy.exp(-gate)) * up, name + "ffn_down")
        logits = self.multiply(self.normalise(rows[-1:], "output_norm"), "token_embd")[0].astype(numpy.float64)
        logits -= logits.max()
        return logits - numpy.log(numpy.exp(logits).sum())


def main(file, recorded):
    metadata, tensors = gguf_files.read(file)
    tensors = {name: numpy.array(numbers, numpy.float32) for name, numbers in tensors}
    models = {
        "F16": Model(metadata, tensors, rounds=False, halves=False),
        "F16 in the other order": Model(metadata, tensors, rounds=False, halves=True),
        "8 bits": Model(metadata, tensors, rounds=True, halves=False),
        "8 bits in the other order": Model(metadata, tensors, rounds=True, halves=True),
        "8 bits, changed by 1e-7": Model(metadata, tensors, rounds=True, halves=False, change=1e-7),
    }
    found = {name: [] for name in models}
    for answered in json.loads(recorded.read_text()):
        for end in range(0, len(answered["answer"]), STEP):
            tokens = answered["tokens"] + answered["answer"][:end]
            if len(tokens) > LONGEST:
                continue
            all_found = {name: model.log_probabilities(tokens) for name, model in models.items()}
            likeliest = numpy.argsort(-all_found["F16"])[:LIKELIEST]
            for name, numbers in all_found.items():
                found[name].append(numbers[likeliest])
    names = list(models)
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            differences = numpy.abs(numpy.concatenate(found[one]) - numpy.concatenate(found[other]))
            mean = numpy.sqrt((differences**2).mean())
            print(f"{one} and {other}: root mean square {mean:.5f}, most {differences.max():.5f}, of {differences.size}")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
