"""Small random models, and what they say by plain arithmetic, for tests/engine/small_models.rs.

    python3 reference.py FOLDER

writes a folder for each case (config.json, model.safetensors, tokenizer.json, an adapter beside it) and prints, as JSON, the
logarithms of the probabilities of the next token after each prompt, without and with the adapter. Of one of them it also writes
models for embeddings, and their vectors (embeddings.json).
"""

import json
import math
import pathlib
import struct
import sys

import numpy

VOCABULARY = 95
WIDTH, LAYERS, FEED_FORWARD = 64, 3, 96
PROMPTS = [[1, 2, 3], [7], [40, 3, 3, 90, 12, 55, 8, 61, 30, 2, 77], list(range(5, 75))]
RANK = 4

CASES = {
    # Grouped-query attention, a separate output matrix, and RoPE scaling with low, high and intermediate frequencies.
    "llama": {
        "model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False,
        "rope_theta": 10000.0, "rms_norm_eps": 1e-5,
        "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64},
    },
    # Biases, and the embedding matrix as output matrix.
    "qwen2": {
        "model_type": "qwen2", "num_attention_heads": 4, "num_key_value_heads": 1, "tie_word_embeddings": True,
        "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
    },
    # Normalised queries and keys, and a total head width that exceeds the width of the model.
    "qwen3": {
        "model_type": "qwen3", "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True,
        "head_dim": 24, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
    },
}


def config_of(case):
    return {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "intermediate_size": FEED_FORWARD,
            "vocab_size": VOCABULARY, "max_position_embeddings": 256, "hidden_act": "silu", **case}


def tensors_of(config, random):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config["hidden_size"]
    head = config.get("head_dim", width // heads)

    def matrix(rows, columns):
        return random.normal(0, 1.5 / math.sqrt(columns), (rows, columns)).astype(numpy.float32)

    def vector(length):
        return random.normal(1, 0.2, length).astype(numpy.float32)

    tensors = {"model.embed_tokens.weight": random.normal(0, 1, (VOCABULARY, width)).astype(numpy.float32),
               "model.norm.weight": vector(width)}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(VOCABULARY, width)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors[at + "input_layernorm.weight"] = vector(width)
        tensors[at + "post_attention_layernorm.weight"] = vector(width)
        for name, (rows, columns) in shapes(config).items():
            tensors[f"{at}{name}.weight"] = matrix(rows, columns)
        if config["model_type"] == "qwen2":
            for name, rows in [("q", heads * head), ("k", kv_heads * head), ("v", kv_heads * head)]:
                tensors[f"{at}self_attn.{name}_proj.bias"] = random.normal(0, 0.5, rows).astype(numpy.float32)
        if config["model_type"] == "qwen3":
            tensors[at + "self_attn.q_norm.weight"] = vector(head)
            tensors[at + "self_attn.k_norm.weight"] = vector(head)
    return tensors


def shapes(config):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config["hidden_size"]
    head = config.get("head_dim", width // heads)
    return {
        "self_attn.q_proj": (heads * head, width), "self_attn.k_proj": (kv_heads * head, width),
        "self_attn.v_proj": (kv_heads * head, width), "self_attn.o_proj": (width, heads * head),
        "mlp.gate_proj": (config["intermediate_size"], width), "mlp.up_proj": (config["intermediate_size"], width),
        "mlp.down_proj": (width, config["intermediate_size"]),
    }


def adapter_of(config, random):
    """Each layer leaves another matrix out."""
    adapter = {}
    for layer in range(LAYERS):
        for number, (name, (rows, columns)) in enumerate(shapes(config).items()):
            if number % LAYERS != layer:
                at = f"base_model.model.model.layers.{layer}.{name}.lora_"
                adapter[at + "A.weight"] = random.normal(0, 0.2, (RANK, columns)).astype(numpy.float32)
                adapter[at + "B.weight"] = random.normal(0, 0.2, (rows, RANK)).astype(numpy.float32)
    return adapter


def frequencies(config, head):
    base = config["rope_theta"] ** (-2.0 * numpy.arange(head // 2) / head)
    scaling = config.get("rope_scaling")
    if scaling is None:
        return base
    context = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    scaled = []
    for frequency in base:
        length = 2 * math.pi / frequency
        if length < context / high:
            scaled.append(frequency)
        elif length > context / low:
            scaled.append(frequency / scaling["factor"])
        else:
            smooth = (context / length - low) / (high - low)
            scaled.append((1 - smooth) * frequency / scaling["factor"] + smooth * frequency)
    return numpy.array(scaled)


def states(config, tensors, adapter, scale, tokens):
    """What the model makes of each token, in double precision."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head = config.get("head_dim", config["hidden_size"] // heads)
    epsilon = config["rms_norm_eps"]

    def get(name):
        return tensors[name].astype(numpy.float64)

    def norm(x, weights):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weights

    def linear(x, name):
        result = x @ get(name + ".weight").T
        if name + ".bias" in tensors:
            result = result + get(name + ".bias")
        low_rank = f"base_model.model.{name}.lora_"
        if adapter and low_rank + "A.weight" in adapter:
            down, up = (adapter[low_rank + side].astype(numpy.float64) for side in ("A.weight", "B.weight"))
            result = result + scale * (x @ down.T @ up.T)
        return result

    angles = numpy.outer(numpy.arange(len(tokens)), frequencies(config, head))[:, None, :]

    def turn(x):
        first, second = x[..., : head // 2], x[..., head // 2 :]
        cosine, sine = numpy.cos(angles), numpy.sin(angles)
        return numpy.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)

    x = get("model.embed_tokens.weight")[tokens]
    future = numpy.triu(numpy.full((len(tokens), len(tokens)), -numpy.inf), 1)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        y = norm(x, get(at + "input_layernorm.weight"))
        queries = linear(y, at + "self_attn.q_proj").reshape(len(tokens), heads, head)
        keys = linear(y, at + "self_attn.k_proj").reshape(len(tokens), kv_heads, head)
        values = linear(y, at + "self_attn.v_proj").reshape(len(tokens), kv_heads, head)
        if config["model_type"] == "qwen3":
            queries = norm(queries, get(at + "self_attn.q_norm.weight"))
            keys = norm(keys, get(at + "self_attn.k_norm.weight"))
        queries, keys = turn(queries), turn(keys)
        found = []
        for number in range(heads):
            shared = number // (heads // kv_heads)
            weights = queries[:, number] @ keys[:, shared].T / math.sqrt(head) + future
            weights = numpy.exp(weights - weights.max(-1, keepdims=True))
            found.append(weights / weights.sum(-1, keepdims=True) @ values[:, shared])
        x = x + linear(numpy.concatenate(found, -1), at + "self_attn.o_proj")
        y = norm(x, get(at + "post_attention_layernorm.weight"))
        gate = linear(y, at + "mlp.gate_proj")
        x = x + linear(gate / (1 + numpy.exp(-gate)) * linear(y, at + "mlp.up_proj"), at + "mlp.down_proj")
    return norm(x, get("model.norm.weight"))


def answer(config, tensors, adapter, scale, tokens):
    """The logarithms of the probabilities of the token after the last one."""
    output = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    logits = states(config, tensors, adapter, scale, tokens)[-1] @ tensors[output + ".weight"].astype(numpy.float64).T
    return logits - logits.max() - math.log(numpy.exp(logits - logits.max()).sum())


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [len(data), len(data) + tensor.nbytes]}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_tokenizer(path):
    """A token for each printable character."""
    vocabulary = {chr(33 + number): number for number in range(VOCABULARY - 1)}
    vocabulary["\u0120"] = VOCABULARY - 1
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    path.write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": level, "post_processor": None,
        "decoder": level, "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }))


# How an embedding model pools a text into a vector: the name of the mode, and whether vectors are normalised to length 1.
EMBEDDINGS = {"last": ("pooling_mode_lasttoken", True), "mean": ("pooling_mode_mean_tokens", False),
              "first": ("pooling_mode_cls_token", True)}


def embed(config, tensors, mode, normalises, tokens):
    x = states(config, tensors, None, 0, tokens)
    vector = {"pooling_mode_lasttoken": x[-1], "pooling_mode_mean_tokens": x.mean(0), "pooling_mode_cls_token": x[0]}[mode]
    return vector / numpy.linalg.norm(vector) if normalises else vector


def write_embeddings(folder, config, tensors):
    """The same model as sentence-transformers saves it, once for each way, and the vectors of all prompts."""
    vectors = {}
    for name, (mode, normalises) in EMBEDDINGS.items():
        model = folder / f"embeds-{name}"
        (model / "1_Pooling").mkdir(parents=True)
        cuts = {"is_matryoshka": True} if name == "last" else {}
        (model / "config.json").write_text(json.dumps({**config, **cuts}))
        write_tensors(model / "model.safetensors", {key.removeprefix("model."): value for key, value in tensors.items()})
        write_tokenizer(model / "tokenizer.json")
        kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalises
        (model / "modules.json").write_text(json.dumps([
            {"idx": number, "name": str(number), "path": "" if number == 0 else f"{number}_{kind}",
             "type": f"sentence_transformers.models.{kind}"} for number, kind in enumerate(kinds)]))
        (model / "1_Pooling" / "config.json").write_text(json.dumps({
            "word_embedding_dimension": WIDTH, "include_prompt": True,
            **{other: other == mode for other, _ in EMBEDDINGS.values()}}))
        vectors[name] = [{"prompt": prompt, "vector": embed(config, tensors, mode, normalises, prompt).tolist()}
                         for prompt in PROMPTS]
    (folder / "embeddings.json").write_text(json.dumps(vectors))


def main(folder):
    printed = {}
    for number, (name, case) in enumerate(CASES.items()):
        random = numpy.random.default_rng(number)
        config = config_of(case)
        tensors, adapter = tensors_of(config, random), adapter_of(config, random)
        model, beside = folder / name, folder / (name + "-adapter")
        model.mkdir()
        beside.mkdir()
        (model / "config.json").write_text(json.dumps(config))
        write_tensors(model / "model.safetensors", tensors)
        write_tokenizer(model / "tokenizer.json")
        if name == "qwen3":
            write_embeddings(folder, config, tensors)
        stabilised = name == "qwen3"
        (beside / "adapter_config.json").write_text(json.dumps({
            "peft_type": "LORA", "r": RANK, "lora_alpha": 6, "use_rslora": stabilised, "bias": "none",
            "target_modules": ["q_proj", "up_proj"], "modules_to_save": None}))
        write_tensors(beside / "adapter_model.safetensors", adapter)
        scale = 6 / (math.sqrt(RANK) if stabilised else RANK)
        printed[name] = [
            {"prompt": prompt, "plain": answer(config, tensors, None, 0, prompt).tolist(),
             "adapted": answer(config, tensors, adapter, scale, prompt).tolist()}
            for prompt in PROMPTS
        ]
    json.dump(printed, sys.stdout)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
