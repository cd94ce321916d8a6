"""Uses a service of vLLM with the clients that people use; prints `fine` where all get what they ask for."""

import sys

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
# A random model never ends the JSON of a call, so what it says is chosen here, and the calls of the agent below are made up.
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

# langchain, and the end of an agent's loop: the model answers with the result of a tool.
chat = ChatOpenAI(base_url=url, api_key="none", model=model, temperature=0, max_completion_tokens=16, max_retries=0)
assert chat.invoke(messages[0]["content"]).content == expected
assert "".join(chunk.content for chunk in chat.stream(messages[0]["content"])) == expected


@tool
def forecast(days: bool) -> str:
    """Tells the weather."""
    return "rain"


call = {"name": "forecast", "args": {"days": True}, "id": "1", "type": "tool_call"}
talk = [HumanMessage("What is the weather?"), AIMessage("", tool_calls=[call]), forecast.invoke(call)]
assert isinstance(talk[-1], ToolMessage) and talk[-1].content == "rain", talk
assert chat.bind_tools([forecast]).invoke(talk).content, talk

print("fine")
