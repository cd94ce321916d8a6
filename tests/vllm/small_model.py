"""Makes a small random model with the tokenizer and the chat template of another one, for tests/vllm: what vLLM's API looks like
does not depend on what a model says, and a small one answers at once. Makes a LoRA adapter for the small model, too.

    python3 small_model.py MODEL FOLDER ADAPTER
"""

import json
import pathlib
import shutil
import struct
import sys

import numpy

WIDTH, LAYERS, HEADS, KV_HEADS, FEED_FORWARD = 64, 2, 2, 1, 128
RANK = 8


def write(file, tensors):
    """Writes tensors by their names as F16."""
    header, data, at = {}, [], 0
    for name, numbers in tensors.items():
        content = numbers.astype(numpy.float16).tobytes()
        header[name] = {"dtype": "F16", "shape": numbers.shape, "data_offsets": [at, at + len(content)]}
        data.append(content)
        at += len(content)
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def main(model, folder, adapter):
    folder.mkdir()
    adapter.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(model / name, folder / name)
    config = json.loads((model / "config.json").read_text())
    config |= {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
               "num_key_value_heads": KV_HEADS, "intermediate_size": FEED_FORWARD}
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens": (config["vocab_size"], WIDTH), "model.norm": (WIDTH,)}
    key_width = WIDTH // HEADS * KV_HEADS
    for layer in range(LAYERS):
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in {
            "input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,),
            "self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (key_width, WIDTH),
            "self_attn.v_proj": (key_width, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
            "mlp.gate_proj": (FEED_FORWARD, WIDTH), "mlp.up_proj": (FEED_FORWARD, WIDTH),
            "mlp.down_proj": (WIDTH, FEED_FORWARD)}.items()}
    random = numpy.random.default_rng(1)
    write(folder / "model.safetensors", {
        f"{name}.weight": numpy.ones(shape) if len(shape) == 1 else random.normal(0, 0.05, shape)
        for name, shape in shapes.items()})
    low_rank = {}
    for layer in range(LAYERS):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        low_rank |= {f"{name}.lora_A.weight": random.normal(0, 1, (RANK, WIDTH)),
                     f"{name}.lora_B.weight": random.normal(0, 1, (WIDTH, RANK))}
    write(adapter / "adapter_model.safetensors", low_rank)
    (adapter / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "bias": "none", "target_modules": ["q_proj"]}))


main(*map(pathlib.Path, sys.argv[1:]))
