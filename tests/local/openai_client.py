"""Uses a service as any program with the official client does; prints `fine` where all is as expected."""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
model = next(iter(client.models.list())).id
messages = [{"role": "user", "content": "Why is the sea salty?"}]


def check_usage(usage, limit):
    assert usage is not None
    assert usage.prompt_tokens > 0 and 0 < usage.completion_tokens <= limit, usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage


answer = client.chat.completions.create(model=model, messages=messages, max_tokens=16)
assert answer.choices[0].message.content, answer
assert answer.choices[0].finish_reason in ("stop", "length"), answer
check_usage(answer.usage, 16)

answer = client.completions.create(model=model, prompt="Once upon a time", max_tokens=16)
assert answer.choices[0].text, answer
check_usage(answer.usage, 16)

options = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 16}
chunks = list(client.chat.completions.create(model=model, messages=messages, **options))
pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
assert sum(1 for piece in pieces if piece) > 1, chunks
assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] in ("stop", "length"), chunks
assert not chunks[-1].choices
check_usage(chunks[-1].usage, 16)

chunks = list(client.completions.create(model=model, prompt="Once upon a time", **options))
assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices), chunks
check_usage(chunks[-1].usage, 16)

try:
    client.chat.completions.create(model="nope", messages=messages)
except openai.NotFoundError:
    pass
else:
    raise AssertionError("a model that does not exist answered")

print("fine")
