"""Lists and calls the tools of `rehearse mcp`. Arguments: the program, a text that no answer may have, a root."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

program, canary, root = sys.argv[1:]


async def main():
    server = StdioServerParameters(command=program, args=["mcp", "--root", root], env=None)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = {tool.name for tool in (await session.list_tools()).tools}
        assert tools == {"list", "inspect", "statement", "compare", "diagnose", "plan"}, tools

        async def call(name, **arguments):
            result = await session.call_tool(name, arguments)
            assert not result.is_error, result
            assert canary not in result.model_dump_json(), name
            assert result.content[0].text and result.structured_content["paths"], name
            return result.structured_content

        listed = await call("list")
        assert [one["kind"] for one in listed["artefacts"]].count("run") == 2, listed
        log = await call("inspect", path="a.log")
        fingerprint = log["report"]["by_statement"][0]["fingerprint"]
        await call("statement", path="a.log", fingerprint=fingerprint)
        compared = await call("compare", before=["a.run"], after=["b.run"])
        assert compared["report"]["statements"], compared
        await call("diagnose", path="b.run")
        refused = await session.call_tool("plan", {"path": "b.run"})
        assert refused.is_error and "--explain" in refused.content[0].text, refused
        outside = await session.call_tool("inspect", {"path": "/etc/passwd"})
        assert outside.is_error and "is not available" in outside.content[0].text, outside


asyncio.run(main())
print("all tools answered")
