"""An agent of Pydantic AI, served by `fasta2a`. Prints its port."""

import asyncio
import json

import uvicorn
from fasta2a.pydantic_ai import agent_to_a2a
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

import script


def next_turn(messages):
    parts = [part for message in messages for part in message.parts]
    texts = [part.content for part in parts if isinstance(part, UserPromptPart)]
    last = parts[-1]
    return texts, script.turn(texts, last.content if isinstance(last, ToolReturnPart) else None)


def whole(messages, info):
    _, turn = next_turn(messages)
    return ModelResponse(parts=[TextPart(turn) if isinstance(turn, str) else ToolCallPart(*turn)])


async def streamed(messages, info):
    texts, turn = next_turn(messages)
    if not isinstance(turn, str):
        yield {0: DeltaToolCall(name=turn[0], json_args=json.dumps(turn[1]))}
        return
    for chunk in script.chunks(texts, turn):
        await asyncio.sleep(script.pause(texts))
        yield chunk


bound, port = script.listener()
agent = Agent(
    FunctionModel(whole, stream_function=streamed),
    name="worker",
    tools=[script.add, Tool(script.delete, requires_approval=True)],
    output_type=[str, DeferredToolRequests],
)
app = agent_to_a2a(agent, url=f"http://127.0.0.1:{port}")
print(f"port {port}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[bound])
