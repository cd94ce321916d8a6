"""Small random models as GGUF files, and what they say by plain arithmetic, for tests/gguf_models.rs.

    python3 gguf_reference.py FOLDER

writes `format-F.gguf` for each format F of weights, `embeds-N.gguf` for each way to make a vector of a text, and prints, as JSON, the
logarithms of the probabilities of the token after each prompt, and the vectors.
"""

import json
import math
import pathlib
import sys

import gguf_files
import numpy
import reference

PARTS = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
BEGIN, END = 90, 91


def name_of(name):
    name, kind = name.rsplit(".", 1)
    if name in WHOLE:
        return f"{WHOLE[name]}.{kind}"
    _, _, layer, part = name.split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.{kind}"


def metadata_of(config, more):
    kind = config["model_type"]
    heads = config["num_attention_heads"]
    words = [chr(33 + number) for number in range(reference.VOCABULARY - 1)] + ["\u0120"]
    words[BEGIN], words[END] = "<s>", "</s>"
    described = {
        "block_count": config["num_hidden_layers"], "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"], "feed_forward_length": config["intermediate_size"],
        "attention.head_count": heads, "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config.get("head_dim", config["hidden_size"] // heads),
        "rope.freq_base": config["rope_theta"], "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
    }
    return {
        "general.architecture": kind, **{f"{kind}.{key}": value for key, value in described.items()},
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [3 if number in (BEGIN, END) else 1 for number in range(len(words))],
        "tokenizer.ggml.merges": [], "tokenizer.ggml.bos_token_id": BEGIN, "tokenizer.ggml.eos_token_id": END, **more,
    }


def formats(folder):
    """A model in each format, whose rows are long enough for all of them."""
    said = {}
    config = reference.config_of({
        "model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False,
        "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1,
    })
    counts = {"self_attn.q_proj": 4, "self_attn.k_proj": 2}
    for number, kind in enumerate(gguf_files.FORMATS):
        random = numpy.random.default_rng(number)
        tensors, written = reference.tensors_of(config, random), {}
        for name, tensor in tensors.items():
            if tensor.ndim == 1:
                written[name_of(name)] = ("F32", tensor.shape, tensor)
                continue
            content = gguf_files.random_bytes(kind, tensor.shape, random, 1.2 / math.sqrt(tensor.shape[1]))
            written[name_of(name)] = (kind, tensor.shape, content)
            numbers = gguf_files.numbers_of(kind, content, tensor.shape)
            for part, heads in counts.items():
                if part in name:
                    numbers = gguf_files.halves_from_neighbours(numbers, heads)
            tensors[name] = numbers
        gguf_files.write(folder / f"format-{kind}.gguf", metadata_of(config, {}), written)
        said[kind] = [{"prompt": prompt, "plain": reference.answer(config, tensors, None, 0, prompt).tolist()}
                      for prompt in reference.PROMPTS]
    return said


def embedders(folder):
    """A model for each way to make vectors, with tokens that are added to each text."""
    config = reference.config_of(reference.CASES["qwen3"])
    tensors = reference.tensors_of(config, numpy.random.default_rng(7))
    written = {name_of(name): ("F32", tensor.shape, tensor) for name, tensor in tensors.items()}
    modes = {"mean": (1, "pooling_mode_mean_tokens"), "first": (2, "pooling_mode_cls_token"), "last": (3, "pooling_mode_lasttoken")}
    sides = {"none": (False, False), "begin": (True, False), "end": (False, True), "both": (True, True)}
    said = {}
    for name, (number, mode) in modes.items():
        for side, (begins, ends) in sides.items():
            more = {"qwen3.pooling_type": number, "tokenizer.ggml.add_bos_token": begins, "tokenizer.ggml.add_eos_token": ends}
            gguf_files.write(folder / f"embeds-{name}-{side}.gguf", metadata_of(config, more), written)
            tokens = [BEGIN] * begins + [1, 2, 3] + [END] * ends
            vector = reference.embed(config, tensors, mode, True, tokens)
            said[f"{name}-{side}"] = {"tokens": tokens, "vector": vector.tolist()}
    # Neither says that it makes vectors.
    for name, more in [("0", {"qwen3.pooling_type": 0}), ("none", {})]:
        gguf_files.write(folder / f"answers-{name}.gguf", metadata_of(config, more), written)
    gguf_files.write(folder / "embeds-unknown.gguf", metadata_of(config, {"qwen3.pooling_type": 9}), written)
    return said


def main(folder):
    json.dump({"formats": formats(folder), "embedders": embedders(folder)}, sys.stdout)


main(pathlib.Path(sys.argv[1]))
