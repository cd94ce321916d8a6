"""Makes a small random model with the tokenizer and the chat template of another one, for tests/vllm: what vLLM's API looks like
does not depend on what a model says, and a small one answers at once.

    python3 small_model.py MODEL FOLDER
"""

import json
import pathlib
import shutil
import struct
import sys

import numpy

WIDTH, LAYERS, HEADS, KV_HEADS, FEED_FORWARD = 64, 2, 2, 1, 128


def main(model, folder):
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(model / name, folder / name)
    config = json.loads((model / "config.json").read_text())
    config |= {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
               "num_key_value_heads": KV_HEADS, "intermediate_size": FEED_FORWARD}
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens": (config["vocab_size"], WIDTH), "model.norm": (WIDTH,)}
    for layer in range(LAYERS):
        key_width = WIDTH // HEADS * KV_HEADS
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in {
            "input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,),
            "self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (key_width, WIDTH),
            "self_attn.v_proj": (key_width, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
            "mlp.gate_proj": (FEED_FORWARD, WIDTH), "mlp.up_proj": (FEED_FORWARD, WIDTH),
            "mlp.down_proj": (WIDTH, FEED_FORWARD)}.items()}
    random = numpy.random.default_rng(1)
    header, data, at = {}, [], 0
    for name, shape in shapes.items():
        numbers = numpy.ones(shape) if len(shape) == 1 else random.normal(0, 0.05, shape)
        content = numbers.astype(numpy.float16).tobytes()
        header[f"{name}.weight"] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + len(content)]}
        data.append(content)
        at += len(content)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
