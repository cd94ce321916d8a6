"""Uses a service of vLLM with the clients that people use; prints `fine` where all get what they ask for."""

import json
import sys
from typing import Literal

import litellm
import openai
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

litellm.suppress_debug_info = True
url, model = sys.argv[1:]
messages = [{"role": "user", "content": "Why is the sea salty?"}]
greedy = {"temperature": 0, "max_tokens": 16}

# The text that every client must get.
client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
assert model in [each.id for each in client.models.list()]
expected = client.chat.completions.create(model=model, messages=messages, **greedy).choices[0].message.content
assert expected


def pieces(stream):
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


assert pieces(client.chat.completions.create(model=model, messages=messages, stream=True, **greedy)) == expected
answer = client.completions.create(model=model, prompt="The wind", n=2, max_tokens=4)
assert len(answer.choices) == 2 and answer.usage.completion_tokens == 8, answer
answer = client.chat.completions.create(
    model=model, messages=messages, extra_body={"structured_outputs": {"choice": ["yes", "no"]}})
assert answer.choices[0].message.content in ("yes", "no"), answer
response = client.responses.create(model=model, input="Hello", max_output_tokens=8)
assert response.output_text and response.usage.output_tokens <= 8, response
for wrong, error in (({"model": "nope"}, openai.NotFoundError), ({"top_p": 2}, openai.BadRequestError)):
    try:
        client.chat.completions.create(**{"model": model, "messages": messages, **wrong})
    except error as refused:
        assert refused.body["message"], refused
    else:
        raise AssertionError(f"{wrong} was taken")

# Calls of tools, with each choice, at once and streamed. A random model may write white space into a call to the end of time: of
# these seeds, some end.
SEEDS = range(60)
weather = {"type": "function", "function": {
    "name": "forecast", "description": "Tells the weather.", "strict": True, "parameters": {
        "type": "object", "properties": {"day": {"enum": ["one", "seven"]}}, "required": ["day"], "additionalProperties": False}}}
question = [{"role": "user", "content": "What is the weather?"}]


def calls(choice, seed, stream):
    """The calls of an answer: names and arguments."""
    asked = {"model": model, "messages": question, "tools": [weather], "tool_choice": choice, "seed": seed, "max_tokens": 60}
    if not stream:
        made = client.chat.completions.create(**asked).choices[0].message.tool_calls or []
        return [[call.function.name, json.loads(call.function.arguments)] for call in made]
    made = []
    for chunk in client.chat.completions.create(stream=True, **asked):
        for call in (call for part in chunk.choices for call in part.delta.tool_calls or []):
            if call.index == len(made):
                made.append(["", ""])
            made[call.index][0] += call.function.name or ""
            made[call.index][1] += call.function.arguments or ""
    # The last call may have been cut.
    return [[name, json.loads(arguments)] for name, arguments in made[:1]]


for choice in ("required", {"type": "function", "function": {"name": "forecast"}}):
    seed, made = next((seed, made) for seed in SEEDS if (made := calls(choice, seed, False)))
    assert all(name == "forecast" and arguments["day"] in ("one", "seven") for name, arguments in made), (choice, made)
    assert calls(choice, seed, True) == made[:1], (choice, seed, made)
for choice in ("none", "auto"):
    assert calls(choice, seed, False) == calls(choice, seed, True) == [], choice

# litellm, whose provider for vLLM is `hosted_vllm`.
options = {"model": f"hosted_vllm/{model}", "api_base": url, "api_key": "none", "messages": messages, **greedy}
answer = litellm.completion(**options)
assert answer.choices[0].message.content == expected, answer
assert answer.usage.completion_tokens <= 16 and answer.usage.prompt_tokens > 0, answer
assert pieces(litellm.completion(stream=True, **options)) == expected
try:
    litellm.completion(**{**options, "model": "hosted_vllm/nope"})
except litellm.NotFoundError:
    pass
else:
    raise AssertionError("a model that does not exist answered")

# langchain, and an agent's loop: the model calls a tool twice, and then answers with the results.
options = {"base_url": url, "api_key": "none", "model": model, "max_retries": 0}
chat = ChatOpenAI(temperature=0, max_completion_tokens=16, **options)
assert chat.invoke(messages[0]["content"]).content == expected
assert "".join(chunk.content for chunk in chat.stream(messages[0]["content"])) == expected


@tool
def forecast(day: Literal["one", "seven"]) -> str:
    """Tells the weather."""
    return f"rain on day {day}"


def turn(talk, choice):
    """The answer to a talk, from the first seed with which a call ends if there has to be one."""
    for seed in SEEDS:
        agent = ChatOpenAI(temperature=1, seed=seed, max_completion_tokens=60, **options)
        said = agent.bind_tools([forecast], tool_choice=choice, strict=True).invoke(talk)
        if bool(said.tool_calls) == (choice != "none"):
            return said
    raise AssertionError(talk)


talk = [HumanMessage("What is the weather?")]
for choice in ("required", "forecast", "none"):
    talk.append(turn(talk, choice))
    talk += [forecast.invoke(call) for call in talk[-1].tool_calls]
results = [message.content for message in talk if isinstance(message, ToolMessage)]
assert len(results) >= 2 and all(result.startswith("rain on day") for result in results), talk
assert isinstance(talk[-1], AIMessage) and talk[-1].content, talk

print("fine")
