"""The official client of the Agent2Agent protocol, against a server whose address is given, in each binding.

It sends, streams, reads, answers, lists and cancels, and prints a line for each binding.
"""

import asyncio
import sys

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_artifact_text, new_data_message, new_text_message
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError

COMPLETED = TaskState.TASK_STATE_COMPLETED
ASKS = TaskState.TASK_STATE_INPUT_REQUIRED


async def last_task(client, message):
    """The id, the context and the last state of what a message begins or continues, and the texts of its results."""
    task, context, state, texts = None, None, None, []
    async for item in client.send_message(SendMessageRequest(message=message)):
        what = item.WhichOneof("payload")
        if what == "task":
            task, context, state = item.task.id, item.task.context_id, item.task.status.state
            texts = [get_artifact_text(artifact) for artifact in item.task.artifacts]
        elif what == "status_update":
            state = item.status_update.status.state
        elif what == "artifact_update":
            texts.append(get_artifact_text(item.artifact_update.artifact))
    return task, context, state, texts


async def pushes(client):
    """The four methods of push notifications, at an address that nobody is at."""
    task, _, state, _ = await last_task(client, new_text_message("later", role=Role.ROLE_USER))
    assert state == ASKS, state
    config = TaskPushNotificationConfig(task_id=task, id="c", url="http://127.0.0.1:9/", token="t")
    created = await client.create_task_push_notification_config(config)
    assert (created.id, created.task_id, created.url) == ("c", task, config.url), created
    one = GetTaskPushNotificationConfigRequest(task_id=task, id="c")
    assert (await client.get_task_push_notification_config(one)).url == config.url
    listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task))
    assert [of.id for of in listed.configs] == ["c"], listed
    await client.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(task_id=task, id="c"))
    try:
        await client.get_task_push_notification_config(one)
        raise SystemExit("it was deleted")
    except TaskNotFoundError:
        pass
    history = await client.get_task(GetTaskRequest(id=task, history_length=5))
    assert [message.parts[0].text for message in history.history] == ["later", "publish LATER?"], history


async def main(url, binding, streaming):
    http = httpx.AsyncClient(timeout=60)
    config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding])

    loud = await create_client(url + "/a2a/quick", config)
    data = new_data_message({"word": "ho", "times": 2}, role=Role.ROLE_USER)
    _, _, state, texts = await last_task(loud, data)
    assert (state, texts) == (COMPLETED, ["HO-HO"]), (state, texts)

    publish = await create_client(url + "/a2a/publish", config)
    task, context, state, _ = await last_task(publish, new_text_message("news", role=Role.ROLE_USER))
    assert state == ASKS, state
    seen = await publish.get_task(GetTaskRequest(id=task))
    assert seen.status.message.parts[0].text == "publish NEWS?", seen
    answer = new_text_message("granted", task_id=task, context_id=context, role=Role.ROLE_USER)
    _, _, state, texts = await last_task(publish, answer)
    assert (state, texts) == (COMPLETED, ["NEWS"]), (state, texts)
    listed = await publish.list_tasks(ListTasksRequest(context_id=context))
    assert [of.id for of in listed.tasks] == [task], listed

    task, context, _, _ = await last_task(publish, new_text_message("more", role=Role.ROLE_USER))
    if streaming:
        stream = publish.subscribe(SubscribeToTaskRequest(id=task))
        first = await anext(stream)
        assert first.task.status.state == ASKS, first
        cancelled = await publish.cancel_task(CancelTaskRequest(id=task))
        states = [item.status_update.status.state async for item in stream]
        assert states[-1] == TaskState.TASK_STATE_CANCELED, states
    else:
        cancelled = await publish.cancel_task(CancelTaskRequest(id=task))
    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED, cancelled
    for request, error in [(task, TaskNotCancelableError), ("unknown", TaskNotFoundError)]:
        try:
            await publish.cancel_task(CancelTaskRequest(id=request))
            raise SystemExit(f"{request} was cancelled")
        except error:
            pass
    await pushes(publish)
    await http.aclose()
    print(binding, "stream" if streaming else "poll", flush=True)


for way in [("JSONRPC", True), ("JSONRPC", False), ("HTTP+JSON", True), ("HTTP+JSON", False)]:
    asyncio.run(main(sys.argv[1], *way))
