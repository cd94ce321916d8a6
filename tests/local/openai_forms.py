"""Asks a service for answers of a certain form, as the official client does; prints `fine` where all have it."""

import json
import sys
from typing import Literal, Optional

import openai
from pydantic import BaseModel

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
model = next(iter(client.models.list())).id
messages = [{"role": "user", "content": "What is the weather in Oslo?"}]
parameters = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
tool = {"type": "function", "function": {"name": "weather", "parameters": parameters}}


class Item(BaseModel):
    name: str
    price: float
    tags: list[str]
    parent: Optional["Item"] = None


class Order(BaseModel):
    items: list[Item]
    kind: Literal["in", "out"]
    count: int


def chat(**options):
    return client.chat.completions.create(model=model, messages=options.pop("messages", messages), **options)


def check_arguments(text):
    arguments = json.loads(text)
    assert isinstance(arguments["city"], str) and arguments["unit"] in ("c", "f"), arguments
    assert set(arguments) <= set(parameters["properties"]), arguments


named = {"type": "function", "function": {"name": "weather"}}
for choice in ("auto", "required", named):
    message = chat(tools=[tool], tool_choice=choice).choices[0].message
    check_arguments(message.tool_calls[0].function.arguments)
    arguments = ""
    for chunk in chat(tools=[tool], tool_choice=choice, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            arguments += call.function.arguments or ""
    check_arguments(arguments)
assert chat(tools=[tool], tool_choice="none").choices[0].message.content
call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
result = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
answer = chat(messages=[*messages, {"role": "assistant", "content": None, "tool_calls": [call]}, result], tools=[tool])
assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop", answer

parsed = client.chat.completions.parse(model=model, messages=messages, response_format=Order)
assert isinstance(parsed.choices[0].message.parsed, Order), parsed
answer = chat(response_format={"type": "json_object"})
assert isinstance(json.loads(answer.choices[0].message.content), dict), answer
answer = chat(extra_body={"structured_outputs": {"choice": ["yes", "no"]}})
assert answer.choices[0].message.content in ("yes", "no"), answer

answer = chat(logprobs=True, top_logprobs=3, max_tokens=4).choices[0]
assert "".join(token.token for token in answer.logprobs.content) == answer.message.content, answer
assert all(len(token.top_logprobs) == 3 for token in answer.logprobs.content), answer

first, second = (chat(temperature=0).choices[0].message.content for _ in range(2))
assert first == second, (first, second)

for wrong in (
    {"temperature": -1},
    {"top_p": 2},
    {"n": 0},
    {"max_tokens": 10**9},
    {"messages": [{"role": "wizard", "content": "x"}]},
    {"logit_bias": {"1": 1}},
):
    try:
        chat(**wrong)
    except openai.BadRequestError as error:
        assert error.body["message"], error
    else:
        raise AssertionError(f"{wrong} was taken")

response = client.responses.create(model=model, input="Hello")
assert response.status == "completed" and response.output_text, response
events = list(client.responses.create(model=model, input="Hello", stream=True))
text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
assert events[-1].type == "response.completed" and events[-1].response.output_text == text, events
function = {"type": "function", "name": "weather", "parameters": parameters}
response = client.responses.create(model=model, input="Hello", tools=[function], tool_choice="required")
check_arguments(response.output[0].arguments)

listed = client.models.list().data[0]
assert listed.created > 0 and listed.root, listed

print("fine")
