//! The official Rust client of the Agent2Agent protocol, against a server whose address is given, in each binding. It sends,
//! streams, reads, answers, lists and cancels, and prints a line for each binding.

use a2a::{
    CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Part, Role, SendMessageConfiguration,
    SendMessageRequest, SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task, TaskState,
};
use a2a_client::agent_card::AgentCardResolver;
use a2a_client::{A2AClient, A2AClientFactory, Transport};
use futures_util::StreamExt;
use serde_json::json;

type Client = A2AClient<Box<dyn Transport>>;

async fn client(url: &str, skill: &str, binding: &str) -> Client {
    let card = AgentCardResolver::new(None).resolve(&format!("{url}/a2a/{skill}")).await.unwrap();
    let factory = A2AClientFactory::builder().preferred_bindings(vec![binding.to_owned()]).build();
    let (client, interface) = factory.create_from_card_with_interface(&card).await.unwrap();
    assert_eq!(interface.protocol_binding, binding);
    client
}

fn sent(message: Message, at_once: bool) -> SendMessageRequest {
    let configuration = SendMessageConfiguration {
        accepted_output_modes: None,
        task_push_notification_config: None,
        history_length: None,
        return_immediately: Some(at_once),
    };
    SendMessageRequest { message, configuration: Some(configuration), metadata: None, tenant: None }
}

async fn task(client: &Client, message: Message, at_once: bool) -> Task {
    match client.send_message(&sent(message, at_once)).await.unwrap() {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => panic!("{message:?}"),
    }
}

fn text(task: &Task) -> &str {
    task.artifacts.as_deref().and_then(|of| of.first()?.parts.first()?.as_text()).unwrap_or_default()
}

fn user(part: Part) -> Message {
    Message::new(Role::User, vec![part])
}

async fn get(client: &Client, id: &str) -> Result<Task, a2a::A2AError> {
    client.get_task(&GetTaskRequest { id: id.into(), history_length: None, tenant: None }).await
}

async fn does_everything(url: &str, binding: &str) {
    let loud = client(url, "quick", binding).await;
    let ended = task(&loud, user(Part::data(json!({"word": "ho", "times": 2}))), false).await;
    assert_eq!((&ended.status.state, text(&ended)), (&TaskState::Completed, "HO-HO"));
    assert_eq!(get(&loud, &ended.id).await.unwrap(), ended);
    let begun = user(Part::data(json!({"word": "hi", "times": 1})));
    let streamed = loud.send_streaming_message(&sent(begun, false)).await.unwrap();
    let updates: Vec<StreamResponse> = streamed.map(|update| update.unwrap()).collect().await;
    assert!(matches!(updates.first(), Some(StreamResponse::Task(_))), "{updates:?}");
    let said = match updates.last().unwrap() {
        StreamResponse::Task(task) => task.status.state.clone(),
        StreamResponse::StatusUpdate(update) => update.status.state.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(said, TaskState::Completed);

    let publish = client(url, "publish", binding).await;
    let asked = task(&publish, user(Part::text("news")), false).await;
    assert_eq!(asked.status.state, TaskState::InputRequired);
    assert_eq!(asked.status.message.as_ref().and_then(Message::text), Some("publish NEWS?"));
    let mut stream =
        publish.subscribe_to_task(&SubscribeToTaskRequest { id: asked.id.clone(), tenant: None }).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(StreamResponse::Task(task))) if task.id == asked.id));
    let mut answer = user(Part::text("granted"));
    answer.task_id = Some(asked.id.clone());
    answer.context_id = Some(asked.context_id.clone());
    let answered = task(&publish, answer, false).await;
    assert_eq!((&answered.status.state, text(&answered)), (&TaskState::Completed, "NEWS"));
    let rest: Vec<StreamResponse> = stream.map(|update| update.unwrap()).collect().await;
    assert!(
        matches!(rest.last(), Some(StreamResponse::StatusUpdate(of)) if of.status.state == TaskState::Completed),
        "{rest:?}"
    );

    let other = task(&publish, user(Part::text("more")), false).await;
    let query = ListTasksRequest {
        context_id: Some(other.context_id.clone()),
        status: Some(TaskState::InputRequired),
        page_size: Some(10),
        page_token: None,
        history_length: None,
        status_timestamp_after: answered.status.timestamp,
        include_artifacts: None,
        tenant: None,
    };
    let listed = publish.list_tasks(&query).await.unwrap();
    assert_eq!((listed.tasks.len(), listed.total_size, &listed.tasks[0].id), (1, 1, &other.id));
    let cancel = |id: &str| CancelTaskRequest { id: id.into(), metadata: None, tenant: None };
    assert_eq!(publish.cancel_task(&cancel(&other.id)).await.unwrap().status.state, TaskState::Canceled);
    let late = publish.cancel_task(&cancel(&other.id)).await.unwrap_err();
    assert_eq!(late.code, a2a::error_code::TASK_NOT_CANCELABLE, "{late:?}");
    let unknown = get(&publish, "unknown").await.unwrap_err();
    assert_eq!(unknown.code, a2a::error_code::TASK_NOT_FOUND, "{unknown:?}");
    println!("{binding}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = std::env::args().nth(1).expect("the address of the server");
    for binding in ["JSONRPC", "HTTP+JSON"] {
        does_everything(&url, binding).await;
    }
}
