"""The official client of the Model Context Protocol against the server whose command the arguments are."""

import sys

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


async def check(mode):
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    progress = []

    async def said(done, total, message):
        progress.append((done, total, message))

    async with Client(stdio_client(server), mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "add" in tools and "quick" in tools, tools
        assert tools["add"].annotations.read_only_hint is True, tools["add"]
        sum = await client.call_tool("add", {"a": 2, "b": 3})
        assert sum.structured_content == {"result": 5}, sum
        assert sum.content[0].text == "5", sum
        wrong = await client.call_tool("add", {"a": "two"})
        assert wrong.is_error and "`b`" in wrong.content[0].text, wrong
        run = await client.call_tool("quick", {"word": "hey", "times": 1}, progress_callback=said)
        assert not run.is_error, run
        try:
            await client.call_tool("ad", {})
        except Exception as error:
            assert "did you mean `add`?" in str(error), error
        else:
            raise AssertionError("an unknown tool was called")
        print(mode, len(tools))


async def main():
    for mode in ("legacy", "auto", "2026-07-28"):
        await check(mode)


anyio.run(main)
