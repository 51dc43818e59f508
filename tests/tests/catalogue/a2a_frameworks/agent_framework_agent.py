"""An agent of Microsoft Agent Framework, served by its `A2AExecutor`. Prints its port."""

import asyncio
import tempfile

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FileHistoryProvider,
    FunctionInvocationLayer,
    Message,
    tool,
)
from agent_framework.a2a import A2AExecutor
from starlette.applications import Starlette

import script


class Scripted(FunctionInvocationLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **settings):
        texts = [message.text for message in messages if message.role == "user" and message.text]
        last = messages[-1].contents[-1]
        turn = script.turn(texts, last.result if last.type == "function_result" else None)
        if isinstance(turn, str):
            contents = [Content.from_text(chunk) for chunk in script.chunks(texts, turn)]
        else:
            contents = [Content.from_function_call("call-1", turn[0], arguments=turn[1])]

        async def streamed():
            for content in contents:
                await asyncio.sleep(script.pause(texts))
                yield ChatResponseUpdate(role="assistant", contents=[content])

        async def whole():
            return ChatResponse(messages=[Message(role="assistant", contents=contents)])

        return self._build_response_stream(streamed()) if stream else whole()


bound, port = script.listener()
agent = Agent(
    Scripted(),
    name="worker",
    tools=[tool(script.add), tool(script.delete, approval_mode="always_require")],
    # Without a provider each message begins a conversation anew, whatever its context.
    context_providers=[FileHistoryProvider(tempfile.mkdtemp())],
)
card = AgentCard(
    name="worker",
    description="Does what the first word says.",
    version="1.0.0",
    supported_interfaces=[
        AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
    ],
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
)
handler = DefaultRequestHandler(A2AExecutor(agent, stream=True), InMemoryTaskStore(), card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
print(f"port {port}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[bound])
