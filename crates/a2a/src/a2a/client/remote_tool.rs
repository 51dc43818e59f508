//! A remote agent as a tool: its arguments, description and result. The card never relaxes the
//! tool's policy.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentflow_schema::text::head;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{A2aAnswer, A2aCard, A2aContent, A2aMessage, A2aPart, A2aTaskState};
use super::peer::Peer;
use super::remote_call::RemoteCall;
use super::task_question::questions_of;
use agentflow_core::Context;
use agentflow_core::message::{Media, ResourceLink};
use agentflow_core::tool::{FnTool, ToolError, ToolOutput, ToolRef, Toolset};

/// Maximum number of bytes of a description.
const MOST_DESCRIPTION: usize = 16 << 10;

/// `state` of a result whose agent asks a question.
pub(super) const INPUT_REQUIRED: &str = "input_required";

/// The toolset of a remote agent. It has one tool.
pub(super) struct A2aToolset {
    pub(super) peer: Arc<Peer>,
}

/// Arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct RemoteArguments {
    /// The task for the agent, written for a reader who has not seen this conversation.
    message: String,
    /// The `context` of an earlier answer, to continue that conversation.
    #[serde(default)]
    context: Option<String>,
    /// The `task` of an answer whose state is `input_required`, to answer the agent's question.
    #[serde(default)]
    task: Option<String>,
}

/// JSON result of the tool.
#[derive(Serialize)]
struct RemoteResult<'a> {
    /// Text of the answer, or of the questions.
    output: String,
    /// Name of the agent in this program.
    agent_id: &'a str,
    /// Address of the agent.
    endpoint: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data: Vec<&'a Value>,
    /// A hint for the model, present if the agent sent nothing or expects an answer in a certain
    /// form.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[async_trait]
impl Toolset for A2aToolset {
    fn name(&self) -> &str {
        self.peer.tool_name()
    }

    fn version(&self) -> u64 {
        self.peer.version.load(Ordering::SeqCst)
    }

    async fn check(&self) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(self.peer.check().await?)
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn StdError + Send + Sync>> {
        let chosen = self.peer.chosen().await?;
        let description =
            self.peer.settings.description.clone().unwrap_or_else(|| described(&chosen.card));
        // The only tool of a toolset has an empty name: it is called by the name of the toolset.
        Ok(vec![tool_of(&self.peer, "", head(&description, MOST_DESCRIPTION)).into()])
    }
}

/// Creates the tool that sends messages to an agent. Fetches nothing before the first call.
pub(super) fn tool_of(peer: &Arc<Peer>, name: &str, description: &str) -> FnTool {
    let mut policy = peer.settings.policy.clone();
    policy.timeout = policy.timeout.or(Some(peer.settings.task_timeout));
    let is_repeatable = policy.is_repeatable();
    let call = Arc::new(RemoteCall { peer: Arc::clone(peer), is_repeatable });
    let tool = FnTool::new(name, description, move |cx: Context, arguments: RemoteArguments| {
        let call = Arc::clone(&call);
        async move {
            let RemoteArguments { message, context, task } = arguments;
            // The idempotency key is the message id, so that a server can recognize a repeated
            // call.
            let message = A2aMessage::user_text(message).id(cx.idempotency_key());
            let message = context.into_iter().fold(message, A2aMessage::context);
            let answer = call.made(&cx, task.into_iter().fold(message, A2aMessage::task)).await?;
            output(&call.peer, &answer)
        }
    });
    tool.policy(policy)
}

/// Builds the tool description from a card.
fn described(card: &A2aCard) -> String {
    let mut text = format!("Asks the agent {}: {}", card.name, card.description);
    for skill in &card.skills {
        let _ = write!(text, "\n- {}: {}", skill.name, skill.description);
    }
    text
}

/// Converts an answer to the result of the tool. A failed, rejected or cancelled task is an error
/// that the model reads.
fn output(peer: &Peer, answer: &A2aAnswer) -> Result<ToolOutput, ToolError> {
    let name = &peer.name;
    let (task, context, state) = match answer {
        A2aAnswer::Message(message) => {
            (None, message.context_id.as_deref(), A2aTaskState::Completed)
        }
        A2aAnswer::Task(task) => (Some(task), task.context_id.as_deref(), task.status.state),
    };
    let said =
        || task.and_then(|task| task.said()).unwrap_or_else(|| "it does not say why".to_owned());
    let failed =
        |what: &str| Err(ToolError::new(format!("the A2A agent `{name}` {what}: {}", said())));
    let state = match state {
        A2aTaskState::Completed => "completed",
        A2aTaskState::InputRequired => INPUT_REQUIRED,
        A2aTaskState::AuthRequired => {
            return failed("asks for credentials, which this program cannot give");
        }
        A2aTaskState::Rejected => return failed("rejected the task"),
        A2aTaskState::Canceled => return failed("cancelled the task"),
        _ => return failed("did not complete the task"),
    };
    let is_asking = state == INPUT_REQUIRED;
    let parts = parts_of(answer);
    let (mut output, mut note) = (answer.text(), None);
    if let Some(task) = task.filter(|_| is_asking) {
        let questions =
            questions_of(task).map_err(|problem| peer.unanswerable(problem).into_tool_error())?;
        let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
        output = texts.join("\n");
        note = match questions.as_slice() {
            [question] if question.asks_approval() => Some("answer with `yes` or `no`"),
            [_] => None,
            _ => Some("answer with a JSON array that has an answer for each question"),
        };
    }
    let data = parts.iter().filter_map(|part| match &part.content {
        A2aContent::Data(value) => Some(value),
        _ => None,
    });
    let note = note.or(parts.is_empty().then_some("the agent ended the task and returned nothing"));
    let answered = RemoteResult {
        output,
        note,
        agent_id: name,
        endpoint: &peer.address.url,
        state,
        // Only a task that asks a question takes a further message.
        task: task.filter(|_| is_asking).map(|task| task.id.as_str()),
        context,
        data: data.collect(),
    };
    let output = ToolOutput::json(&answered)?;
    Ok(parts.iter().fold(output, |output, part| with_file(output, part)))
}

fn parts_of(answer: &A2aAnswer) -> Vec<&A2aPart> {
    match answer {
        A2aAnswer::Message(message) => message.parts.iter().collect(),
        A2aAnswer::Task(task) => {
            let said = task.status.message.iter().flat_map(|message| &message.parts);
            task.artifacts.iter().flat_map(|artifact| &artifact.parts).chain(said).collect()
        }
    }
}

fn with_file(output: ToolOutput, part: &A2aPart) -> ToolOutput {
    let kind = part.media_type.as_deref();
    match &part.content {
        A2aContent::Raw(bytes) => {
            let file = Media::of_bytes(kind.unwrap_or("application/octet-stream"), bytes);
            output.with_media(part.filename.iter().cloned().fold(file, Media::name))
        }
        A2aContent::Url(url) => {
            let link =
                part.filename.iter().cloned().fold(ResourceLink::new(url), ResourceLink::name);
            output.with_link(kind.into_iter().fold(link, ResourceLink::mime_type))
        }
        A2aContent::Text(_) | A2aContent::Data(_) => output,
    }
}
