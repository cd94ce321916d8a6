"""Asks the engine through the official client, for tests/engine/openai.rs: the server's address, then asserts."""

import json
import math
import re
import sys
import urllib.request

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
SEA = [{"role": "user", "content": "Write one sentence about the sea."}]
ENDS = ("<|im_end|>", "<|endoftext|>")
CALL = '<tool_call>{"name": "get_time", "arguments": {"city": "Paris"}}</tool_call>'
TOOL = {"type": "function", "function": {
    "name": "get_time", "description": "The time in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in error.body["message"], error.body
    else:
        raise AssertionError(f"{words}: it was not refused")


def chat(**fields):
    return client.chat.completions.create(**{"model": "m", "messages": SEA, "temperature": 0, "max_tokens": 48, **fields})


assert [model.id for model in client.models.list()] == ["m"]

whole = chat()
text = whole.choices[0].message.content
assert text.startswith("The sea is "), text
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

chunks = list(chat(stream=True, stream_options={"include_usage": True}))
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == whole.choices[0].finish_reason

told = chat(logprobs=True, top_logprobs=3, max_tokens=5).choices[0].logprobs.content
assert len(told) == 5 and all(len(token.top_logprobs) == 3 for token in told)
assert all(token.logprob == token.top_logprobs[0].logprob <= 0 for token in told), "greedy takes the likeliest"

# All tokens count and are listed, also those that are no part of the text.
for fields, end in [({}, "<|im_end|>"), ({"stop": [" is"]}, " is")]:
    ended = chat(logprobs=True, max_tokens=64, **fields)
    listed = [token.token for token in ended.choices[0].logprobs.content]
    assert (ended.choices[0].finish_reason, listed[-1], len(listed)) == ("stop", end, ended.usage.completion_tokens), ended
    assert "".join(listed) == ended.choices[0].message.content + end, ended
    chunks = list(chat(stream=True, stream_options={"include_usage": True}, max_tokens=64, **fields))
    assert chunks[-1].usage.completion_tokens == len(listed) and chunks[-2].choices[0].finish_reason == "stop", chunks[-2:]
shown = chat(max_tokens=64, extra_body={"skip_special_tokens": False, "include_stop_str_in_output": True})
assert shown.choices[0].message.content == chat(max_tokens=64).choices[0].message.content + "<|im_end|>", shown

several = chat(n=3, temperature=1.0, seed=7)
assert [choice.index for choice in several.choices] == [0, 1, 2]
assert len({choice.message.content for choice in several.choices}) > 1
again = chat(n=3, temperature=1.0, seed=7)
assert [c.message.content for c in again.choices] == [c.message.content for c in several.choices]

completion = client.completions.create(model="m", prompt="The capital of France is", max_tokens=6, temperature=0, logprobs=2)
said = completion.choices[0]
assert "Paris" in said.text, said.text
assert "".join(said.logprobs.tokens) == said.text

# The last token of a character has all of it.
birds = client.completions.create(model="m", prompt="Emoji: 🐦🐦🐦🐦🐦", max_tokens=12, temperature=0, logprobs=2).choices[0]
assert "🐦" in birds.text and "".join(birds.logprobs.tokens) == birds.text, birds
assert "\ufffd" not in json.dumps(birds.logprobs.top_logprobs, ensure_ascii=False), birds

body = json.dumps({"model": "m", "prompt": said.logprobs.tokens[1]}).encode()
with urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/tokenize", body)) as answer:
    tokens = json.load(answer)["tokens"]
ended = client.completions.create(model="m", prompt="The capital of France is", max_tokens=6, temperature=0,
                                  extra_body={"stop_token_ids": tokens})
assert (ended.choices[0].finish_reason, ended.choices[0].text) == ("stop", said.logprobs.tokens[0])
assert (ended.choices[0].stop_reason, ended.usage.completion_tokens) == (tokens[0], 2), ended

schema = {"type": "object", "required": ["city", "people", "is_old"], "properties": {
    "city": {"type": "string", "maxLength": 20}, "people": {"type": "integer"}, "is_old": {"type": "boolean"}}}
for temperature in (0, 1.5):
    shaped = chat(response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema}},
                  max_tokens=600, temperature=temperature, seed=1)
    value = json.loads(shaped.choices[0].message.content)
    assert set(value) == {"city", "people", "is_old"} and isinstance(value["people"], int), value
    assert shaped.choices[0].finish_reason == "stop"
chosen = chat(extra_body={"structured_outputs": {"choice": ["red", "green"]}}, temperature=2.0)
assert chosen.choices[0].message.content in ("red", "green"), chosen
# Probabilities are those of what the form allows, and with `ignore_eos` the answer goes on after it.
rated = chat(extra_body={"structured_outputs": {"choice": ["red"]}}, logprobs=True, top_logprobs=20).choices[0].logprobs.content
assert all(abs(sum(math.exp(top.logprob) for top in token.top_logprobs) - 1) < 1e-3 for token in rated), rated
assert rated[0].top_logprobs[-1].logprob == -9999 and rated[-1].token in ENDS, rated
endless = chat(extra_body={"structured_outputs": {"choice": ["red"]}, "ignore_eos": True}, max_tokens=9)
assert (endless.usage.completion_tokens, endless.choices[0].finish_reason) == (9, "length"), endless
assert endless.choices[0].message.content.startswith("red"), endless

for pattern in (r"[0-9]{3}-[0-9]{4}", r"(Yes|No), (it|she) (is|was) [a-zäöü]{3,8}\.", "é+!"):
    for field in ({"guided_regex": pattern}, {"structured_outputs": {"regex": pattern}}):
        matched = chat(extra_body=field, temperature=1.5, seed=3).choices[0]
        assert matched.finish_reason in ("stop", "length"), matched
        if matched.finish_reason == "stop":
            assert re.fullmatch(pattern, matched.message.content), matched
for grammar in ('root ::= sign (" and " sign)*\nsign ::= "red" | # a light\n  "green"', "start: SIGN (\" and \" SIGN)*\nSIGN: /red|green/"):
    told = chat(extra_body={"structured_outputs": {"grammar": grammar}}, temperature=1.5, seed=3).choices[0]
    assert re.match(r"(red|green)( and (red|green))*", told.message.content), told
exact = {"type": "object", "required": ["b", "a"], "additionalProperties": False, "properties": {
    "b": {"type": "string", "pattern": "^[A-Z][a-z]{2}$"}, "a": {"type": "integer", "minimum": 7, "maximum": 8},
    "at": {"oneOf": [{"type": "string", "format": "date"}, {"type": "null"}]}}}
for temperature in (0, 1.5):
    value = json.loads(chat(extra_body={"structured_outputs": {"json": exact}}, temperature=temperature, seed=5,
                            max_tokens=200).choices[0].message.content)
    assert list(value)[:2] == ["b", "a"] and re.fullmatch("[A-Z][a-z]{2}", value["b"]) and value["a"] in (7, 8), value
number = chat(extra_body={"guided_regex": r"[0-9]{3}-[0-9]{4}"}).choices[0]
assert number.finish_reason == "stop" and re.fullmatch(r"[0-9]{3}-[0-9]{4}", number.message.content), number


def tokens_of(**body):
    data = json.dumps({"model": "m", **body}).encode()
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/tokenize", data)) as answer:
        return json.load(answer)["tokens"]


def paris(**fields):
    return client.completions.create(model="m", prompt="The capital of France is", max_tokens=1, temperature=0, **fields).choices[0].text


assert paris() == " Paris", paris()
(token,), (other,) = tokens_of(prompt=" Paris"), tokens_of(prompt=" London")
assert paris(logit_bias={str(other): 100}) == " London"
assert paris(logit_bias={str(token): -100}) != " Paris"
assert paris(extra_body={"allowed_token_ids": [other]}) == " London"
assert paris(extra_body={"bad_words": ["Paris"]}) != " Paris"
(end,) = tokens_of(prompt="<|im_end|>")
assert paris(extra_body={"allowed_token_ids": [end], "ignore_eos": True}) == ""
assert paris(extra_body={"allowed_token_ids": [end], "ignore_eos": True, "skip_special_tokens": False}) == "<|im_end|>"

begun = SEA + [{"role": "assistant", "content": "The sea is blue and"}]
settings = {"add_generation_prompt": False, "continue_final_message": True}
assert tokens_of(messages=begun, **settings) == tokens_of(messages=SEA) + tokens_of(prompt="The sea is blue and")
gone_on = chat(messages=begun, extra_body=settings, max_tokens=8)
assert gone_on.usage.prompt_tokens == len(tokens_of(messages=begun, **settings)), gone_on
assert chat(extra_body={"request_id": "mine"}, max_tokens=1).id == "chatcmpl-mine"

# So small a model calls nothing by itself: the form of its answer leaves it nothing else.
asked = [{"role": "user", "content": "What time is it in Paris?"}]
only_call = {"structured_outputs": {"choice": [CALL]}}
called = chat(messages=asked, tools=[TOOL], extra_body=only_call).choices[0]
assert called.finish_reason == "tool_calls", called
function = called.message.tool_calls[0].function
assert (function.name, json.loads(function.arguments)) == ("get_time", {"city": "Paris"}), function
listed = chat(messages=asked, tools=[TOOL], extra_body=only_call, logprobs=True).choices[0].logprobs.content
assert "".join(token.token for token in listed[:-1]) == CALL and listed[-1].token in ENDS, listed
parts = [chunk.choices[0] for chunk in chat(messages=asked, tools=[TOOL], extra_body=only_call, stream=True)]
assert not any(part.delta.content == "" for part in parts[1:]), parts
rated = [chunk.choices[0] for chunk in chat(messages=asked, tools=[TOOL], extra_body=only_call, stream=True, logprobs=True)]
assert [token.token for part in rated if part.logprobs for token in part.logprobs.content] == [token.token for token in listed], rated
deltas = [call for part in parts for call in part.delta.tool_calls or []]
assert deltas[0].function.name == "get_time" and deltas[0].id
assert json.loads("".join(delta.function.arguments or "" for delta in deltas)) == {"city": "Paris"}
assert parts[-1].finish_reason == "tool_calls"
follow = asked + [called.message.model_dump(exclude_none=True),
                  {"role": "tool", "tool_call_id": called.message.tool_calls[0].id, "content": "12:00"}]
assert chat(messages=follow, tools=[TOOL], tool_choice="none").choices[0].message.content

refused(openai.NotFoundError, "The model `other` does not exist.", lambda: chat(model="other"))
refused(openai.BadRequestError, "max_tokens=99999 cannot be greater than max_model_len=2048", lambda: chat(max_tokens=99999))
refused(openai.BadRequestError, "temperature must be non-negative", lambda: chat(temperature=-1))
def function(name, key, schema):
    return {"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": {key: schema}, "required": [key]}}}


# A call that is forced has the name and the arguments of one of the tools, whatever the model would rather say.
tools = [function("add_one", "number", {"type": "integer"}), function("set_colour", "colour", {"enum": ["red", "blue"]})]
named = {"type": "function", "function": {"name": "set_colour"}}
for choice, names, reason in [("required", ["add_one", "set_colour"], "tool_calls"), (named, ["set_colour"], "stop")]:
    answer = chat(tools=tools, tool_choice=choice, max_tokens=64).choices[0]
    assert answer.finish_reason == reason and not answer.message.content, answer
    (call,) = answer.message.tool_calls
    assert call.function.name in names, call
    arguments = json.loads(call.function.arguments)
    if call.function.name == "add_one":
        assert list(arguments) == ["number"] and type(arguments["number"]) is int, arguments
    else:
        assert arguments in [{"colour": "red"}, {"colour": "blue"}], arguments
    parts = [chunk.choices[0] for chunk in chat(tools=tools, tool_choice=choice, stream=True, max_tokens=64)]
    deltas = [call.function for part in parts for call in part.delta.tool_calls or []]
    assert deltas[0].name == call.function.name and not any(part.delta.content for part in parts), parts
    assert "".join(delta.arguments or "" for delta in deltas) == call.function.arguments, deltas
    assert parts[-1].finish_reason == reason, parts[-1]
as_response = [{"type": "function", **tool["function"]} for tool in tools]
events = list(client.responses.create(model="m", input="Hello", tools=as_response, tool_choice="required", temperature=0, stream=True))
added = [(event.output_index, event.item.type) for event in events if event.type == "response.output_item.added"]
assert added == [(0, "function_call")] and len(events[-1].response.output) == 1, events
assert not any(event.type == "response.output_text.delta" for event in events), events
cut = chat(tools=tools, tool_choice=named, max_tokens=30).choices[0]
assert cut.finish_reason in ("length", "stop") and not cut.message.content and cut.message.tool_calls, cut
odd = function("get_code", "code", {"type": "string", "not": {"const": "x"}})
refused(openai.BadRequestError, "tool_choice: get_code: Unimplemented keys: [\"not\"]",
        lambda: chat(tools=[TOOL, odd], tool_choice="required"))
refused(openai.BadRequestError, "a forced call cannot be combined with response_format",
        lambda: chat(tools=[TOOL], tool_choice="required", response_format={"type": "json_object"}))
refused(openai.BadRequestError, "Grammar error: Unimplemented keys: [\"not\"]",
        lambda: chat(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {
            "type": "string", "not": {"const": "a"}}}}))
for fields, words in [
        ({"guided_regex": "("}, "unclosed group"),
        ({"structured_outputs": {"json": schema, "disable_any_whitespace": True}}, "disable_any_whitespace is not supported"),
        ({"logit_bias": {"99999999": 1}}, "token_id(s) [99999999] in logit_bias contain out-of-vocab token ids."),
        ({"allowed_token_ids": [99999999]}, "allowed_token_ids contains out-of-vocab token id!"),
        ({"guided_grammar": "answer ::= 1"}, "No 'root' rule found"),
        ({"structured_outputs": {"grammar": "root ::= other"}}, "Grammar error: "),
        ({"guided_json": {"type": "string", "format": "unheard"}}, "Grammar error: ")]:
    refused(openai.BadRequestError, words, lambda: chat(extra_body=fields))
refused(openai.BadRequestError, "your prompt contains at least 2049 input tokens",
        lambda: client.completions.create(model="m", prompt="a" * 20_000_000, max_tokens=1))
refused(openai.BadRequestError, "Token id 99999999 is out of vocabulary",
        lambda: client.completions.create(model="m", prompt=[99999999], max_tokens=1))

with urllib.request.urlopen(sys.argv[1] + "/metrics") as answer:
    series = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
waited, started = (next(float(value) for key, value in series.items() if key.startswith(name))
                   for name in ("vllm:request_queue_time_seconds_count", "vllm:time_to_first_token_seconds_count"))
assert waited >= started > 0, (waited, started)
