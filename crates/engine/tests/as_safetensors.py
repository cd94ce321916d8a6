"""Makes a folder with safetensors of a GGUF file of a Llama model, for tests/engine/real_model.rs: the same numbers, as F16.

    python3 as_safetensors.py MODEL.gguf FOLDER
"""

import json
import pathlib
import struct
import sys

import gguf_files
import numpy

PARTS = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def name_of(name):
    whole = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in whole:
        return whole[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{PARTS[part]}.weight"


def main(file, folder):
    folder.mkdir()
    metadata, tensors = gguf_files.read(file)
    get = lambda key: metadata["llama." + key]
    heads, kv_heads = get("attention.head_count"), get("attention.head_count_kv")
    header, data, at = {}, [], 0
    for name, numbers in tensors:
        for part, count in [(".attn_q.", heads), (".attn_k.", kv_heads)]:
            if part in name:
                numbers = gguf_files.halves_from_neighbours(numbers, count)
        content = numbers.astype(numpy.float16).tobytes()
        header[name_of(name)] = {"dtype": "F16", "shape": numbers.shape, "data_offsets": [at, at + len(content)]}
        data.append(content)
        at += len(content)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": get("embedding_length"),
        "num_hidden_layers": get("block_count"),
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "intermediate_size": get("feed_forward_length"),
        "vocab_size": get("vocab_size"), "max_position_embeddings": get("context_length"), "hidden_act": "silu",
        "rope_theta": get("rope.freq_base"), "rms_norm_eps": get("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": True, "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
    }))
    words, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "normalizer": None, "post_processor": None, "decoder": level,
        "added_tokens": [
            {"id": number, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True} for number, (word, kind) in enumerate(zip(words, kinds)) if kind == 3],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]},
        "model": {"type": "BPE", "vocab": {word: number for number, word in enumerate(words)},
                  "merges": metadata["tokenizer.ggml.merges"]},
    }))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": metadata["tokenizer.chat_template"]}))


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
