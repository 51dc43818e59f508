"""An agent of Google ADK, served by its own `to_a2a`. Prints its port."""

import asyncio

import uvicorn
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

import script


class Scripted(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        parts = [part for content in request.contents if content.role == "user" for part in content.parts]
        texts = [part.text for part in parts if part.text]
        response = parts[-1].function_response
        result = (response.response.get("result") or response.response["error"]) if response else None
        turn = script.turn(texts, result)
        if isinstance(turn, str):
            chunks = script.chunks(texts, turn)
            await asyncio.sleep(script.pause(texts) * len(chunks))
            part = types.Part(text="".join(chunks))
        else:
            part = types.Part(function_call=types.FunctionCall(name=turn[0], args=turn[1]))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


bound, port = script.listener()
agent = LlmAgent(
    name="worker",
    description="Does what the first word says.",
    model=Scripted(model="scripted"),
    tools=[script.add, FunctionTool(script.delete, require_confirmation=True)],
)
print(f"port {port}", flush=True)
uvicorn.Server(uvicorn.Config(to_a2a(agent, host="127.0.0.1", port=port), log_level="warning")).run(sockets=[bound])
