"""An agent on the official SDK of the Agent2Agent protocol. Arguments: the binding, and `stream` or `poll`.

It prints its port. What it does is the first word of what it is asked.
"""

import asyncio
import socket
import sys

import uvicorn
from a2a.helpers import new_data_part, new_raw_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette


class Worker(AgentExecutor):
    async def execute(self, context, queue):
        text = context.get_user_input()
        what = text.split(" ")[0]
        if what == "message":
            await queue.enqueue_event(new_text_message(f"said: {text}", context_id=context.context_id))
            return
        task = context.current_task
        asked = task is not None
        if not asked:
            task = new_task_from_user_message(context.message)
            await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        if asked:
            await updater.add_artifact([new_text_part(f"You like {text}.")])
            await updater.complete()
            return
        await updater.start_work(updater.new_agent_message([new_text_part("on it")]))
        if what == "chunks":
            await updater.add_artifact([new_text_part("one")], artifact_id="a")
            await updater.add_artifact([new_text_part("two")], artifact_id="a", append=True, last_chunk=True)
            await updater.complete()
        elif what == "files":
            file = new_raw_part(b"\x00\x01\xff", media_type="image/png", filename="dot.png")
            await updater.add_artifact([new_text_part("both"), file, new_data_part({"n": 7})])
            await updater.complete()
        elif what == "ask":
            await updater.requires_input(updater.new_agent_message([new_text_part("Which colour?")]))
        elif what == "reject":
            await updater.reject(updater.new_agent_message([new_text_part("not today")]))
        elif what == "fail":
            await updater.failed(updater.new_agent_message([new_text_part("it broke")]))
        else:
            await asyncio.Event().wait()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


binding, mode = sys.argv[1:]
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
port = listener.getsockname()[1]
card = AgentCard(
    name="Worker",
    description="Does what the first word says.",
    version="1.0.0",
    supported_interfaces=[
        AgentInterface(url=f"http://127.0.0.1:{port}/a2a", protocol_binding=binding, protocol_version="1.0")
    ],
    capabilities=AgentCapabilities(streaming=mode == "stream", push_notifications=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="work", name="Work", description="Works.", tags=["work"])],
)
handler = DefaultRequestHandlerV2(
    agent_executor=Worker(),
    task_store=InMemoryTaskStore(),
    agent_card=card,
    push_config_store=InMemoryPushNotificationConfigStore(),
)
routes = create_agent_card_routes(card)
if binding == "JSONRPC":
    routes += create_jsonrpc_routes(handler, "/a2a")
else:
    routes += create_rest_routes(handler, path_prefix="/a2a")
print(f"port {port}", flush=True)
uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning")).run(sockets=[listener])
