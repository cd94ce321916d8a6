"""The openai client against a model that makes embeddings: `embeddings_client.py URL`."""

import math
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
TEXTS = ["The sea is salty.", "Sea water is salty.", "def add(a, b): return a + b"]

# The client requests base64 by default.
told = client.embeddings.create(model="e", input=TEXTS)
plain = client.embeddings.create(model="e", input=TEXTS, encoding_format="float")
vectors = [entry.embedding for entry in told.data]
assert [entry.index for entry in told.data] == [0, 1, 2] and told.model == "e"
for ours, other in zip(vectors, plain.data):
    assert len(ours) == len(other.embedding) and all(abs(a - b) < 1e-6 for a, b in zip(ours, other.embedding))
    assert abs(math.sqrt(sum(number * number for number in ours)) - 1) < 1e-4
near, far = (sum(a * b for a, b in zip(vectors[0], other)) for other in vectors[1:])
assert near > far, (near, far)
assert told.usage.prompt_tokens == told.usage.total_tokens > 10, told.usage
assert client.embeddings.create(model="e", input=TEXTS[0]).data[0].embedding == vectors[0]
try:
    client.embeddings.create(model="other", input="a")
except openai.NotFoundError as error:
    assert "The model `other` does not exist." in error.body["message"]
else:
    raise AssertionError("the model does not exist")
