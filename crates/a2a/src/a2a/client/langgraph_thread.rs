//! Reads the questions of a LangGraph agent from the thread of their task. The server shows a
//! question only in the response to the message that caused it, and not when the task is fetched
//! again.

use reqwest::Url;
use serde_json::{Value, json};

use super::super::{A2aPart, A2aTask};
use super::peer::Peer;
use super::task_question::{LANGGRAPH_ARTIFACT, questions_of};

/// Returns the task with the questions of its thread. Returns `None` if the server is not
/// LangGraph, if the thread cannot be fetched, or if it waits for no input.
pub(super) async fn with_thread_questions(peer: &Peer, task: &A2aTask) -> Option<A2aTask> {
    let url = thread_url(&peer.chosen().await.ok()?.url, task)?;
    let thread = peer.document(url, "the thread of a task").await.ok()?;
    let interrupts =
        thread["interrupts"].as_object()?.values().filter_map(Value::as_array).flatten();
    let parts: Vec<Value> =
        interrupts.map(|interrupt| json!(A2aPart::data(interrupt.clone()))).collect();
    let artifact =
        json!({"artifactId": LANGGRAPH_ARTIFACT, "name": LANGGRAPH_ARTIFACT, "parts": parts});
    let mut task = task.clone();
    task.artifacts.push(serde_json::from_value(artifact).ok()?);
    questions_of(&task).is_ok().then_some(task)
}

/// Returns the URL of a task's thread: `/threads/{context}` next to `/a2a/{assistant}`. Returns
/// `None` unless the task id has the form `{context}:{run}`.
fn thread_url(agent: &Url, task: &A2aTask) -> Option<Url> {
    let (server, assistant) = agent.path().trim_end_matches('/').rsplit_once("/a2a/")?;
    let context = task.context_id.as_deref()?;
    let is_id = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    if !is_id(assistant) || !is_id(context) || task.id.split_once(':')?.0 != context {
        return None;
    }
    let mut url = agent.clone();
    url.set_path(&format!("{server}/threads/{context}"));
    url.set_query(None);
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::super::super::A2aTaskState;
    use super::*;

    #[test]
    fn only_threads_of_langgraph_have_an_address() {
        let url = |agent: &str, id: &str, context: &str| {
            let task = A2aTask::new(id, context, A2aTaskState::InputRequired);
            thread_url(&agent.parse().unwrap(), &task).map(String::from)
        };
        let found = url("https://a.example/apps/a2a/b-1/?x=1", "c-2:d-3", "c-2");
        assert_eq!(found.as_deref(), Some("https://a.example/apps/threads/c-2"));
        for (agent, id, context) in [
            ("https://a.example/rpc", "c-2:d-3", "c-2"),
            ("https://a.example/a2a/b/c", "c-2:d-3", "c-2"),
            ("https://a.example/a2a/b", "d-3", "c-2"),
            ("https://a.example/a2a/b", "..:d", ".."),
            ("https://a.example/a2a/b", "c/2:d", "c/2"),
        ] {
            assert_eq!(url(agent, id, context), None, "{agent} {id}");
        }
    }
}
