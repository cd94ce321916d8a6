"""Asks a service for vectors through the official client: its address, and the file of what they must be. Prints `fine`."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
with open(sys.argv[2]) as file:
    cases = json.load(file)["last"]
assert "vectors" in [model.id for model in client.models.list()]


def near(ours, expected):
    # The engine converts weights to 8 bits, which rounds them.
    return len(ours) == len(expected) and sum(a * b for a, b in zip(ours, expected)) > 0.98


prompts = [case["prompt"] for case in cases]
answer = client.embeddings.create(model="vectors", input=prompts)
assert answer.usage.prompt_tokens == sum(map(len, prompts)), answer.usage
for entry, case in zip(answer.data, cases):
    assert near(entry.embedding, case["vector"]), case["prompt"]
# The tokens of a text are its characters, from `!` on.
told = client.embeddings.create(model="vectors", input='"#$', encoding_format="float")
assert near(told.data[0].embedding, cases[0]["vector"])
cut = client.embeddings.create(model="vectors", input='"#$', dimensions=16).data[0].embedding
assert len(cut) == 16 and abs(sum(number * number for number in cut) - 1) < 1e-4
try:
    client.chat.completions.create(model="vectors", messages=[{"role": "user", "content": "x"}])
except openai.NotFoundError:
    print("fine")
