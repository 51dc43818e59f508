"""An agent of AG2, served by its own `A2AServer`. Prints its port."""

import asyncio
import json

import uvicorn
from ag2 import Agent, tool
from ag2.a2a import A2AServer
from ag2.config import ModelConfig
from ag2.events import (
    DataInput,
    ModelMessage,
    ModelMessageChunk,
    ModelRequest,
    ModelResponse,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResultsEvent,
)
from ag2.middleware import approval_required

import script


class Scripted(ModelConfig):
    provider, model = "scripted", "scripted"

    def copy(self):
        return self

    def create(self):
        return self

    async def __call__(self, messages, context, **settings):
        requests = [message for message in messages if isinstance(message, ModelRequest)]
        texts = [part.content for request in requests for part in request.parts]
        last = messages[-1]
        result = last.results[0].result.parts[0] if isinstance(last, ToolResultsEvent) else None
        turn = script.turn(texts, result.data if isinstance(result, DataInput) else result)
        if not isinstance(turn, str):
            name, arguments = turn
            return ModelResponse(tool_calls=ToolCallsEvent([ToolCallEvent(name, arguments=json.dumps(arguments))]))
        chunks = script.chunks(texts, turn)
        for chunk in chunks:
            await asyncio.sleep(script.pause(texts))
            await context.send(ModelMessageChunk(chunk))
        return ModelResponse(ModelMessage("".join(chunks)))


bound, port = script.listener()
agent = Agent("worker", config=Scripted(), tools=[tool(script.add), tool(script.delete, middleware=[approval_required()])])
app = A2AServer(agent).build_jsonrpc(url=f"http://127.0.0.1:{port}")
print(f"port {port}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[bound])
