"""A graph of LangChain's `create_agent`, which `langgraph dev` serves."""

import asyncio

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

import script


class Scripted(BaseChatModel):
    _llm_type = "scripted"

    def bind_tools(self, tools, **settings):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **settings):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **settings):
        texts = [message.text for message in messages if isinstance(message, HumanMessage)]
        last = messages[-1]
        turn = script.turn(texts, last.text if isinstance(last, ToolMessage) else None)
        if isinstance(turn, str):
            chunks = script.chunks(texts, turn)
            for chunk in chunks:
                await asyncio.sleep(script.pause(texts))
                if run_manager:
                    token = ChatGenerationChunk(message=AIMessageChunk(chunk))
                    await run_manager.on_llm_new_token(chunk, chunk=token)
            answer = AIMessage("".join(chunks))
        else:
            answer = AIMessage("", tool_calls=[{"name": turn[0], "args": turn[1], "id": "call-1"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


graph = create_agent(
    Scripted(),
    [tool(script.add), tool(script.delete)],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"delete": {"allowed_decisions": ["approve", "reject"]}})],
)
