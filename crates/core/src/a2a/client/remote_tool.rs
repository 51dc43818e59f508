//! An agent of another program as a tool: its arguments, its description, its answer. What the agent says of itself makes no
//! policy wider.

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
use crate::context::Context;
use crate::message::{Media, ResourceLink};
use crate::tool::{FnTool, ToolError, ToolOutput, ToolRef, Toolset};

/// The most bytes of a description.
const MOST_DESCRIPTION: usize = 16 << 10;

/// The state of an answer that asks.
pub(super) const INPUT_REQUIRED: &str = "input_required";

/// The one tool of an agent.
pub(super) struct AgentTools {
    pub(super) peer: Arc<Peer>,
}

/// What the agent is asked.
#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// What the agent is to do, as you would write it to a colleague who knows nothing of this conversation.
    message: String,
    /// The `context` of an earlier answer, to continue that conversation.
    #[serde(default)]
    context: Option<String>,
    /// The `task` of an answer whose state is `input_required`, to answer what the agent asks.
    #[serde(default)]
    task: Option<String>,
}

/// What the agent answers.
#[derive(Serialize)]
struct Answered<'a> {
    /// The text.
    output: String,
    /// The name that the program gave it.
    agent_id: &'a str,
    /// Where it is.
    endpoint: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data: Vec<&'a Value>,
    /// Present if the agent sent nothing, or asks for an answer in a certain form.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[async_trait]
impl Toolset for AgentTools {
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
        let description = self.peer.settings.description.clone().unwrap_or_else(|| described(&chosen.card));
        // A toolset of one tool, which has the name of the toolset.
        Ok(vec![tool_of(&self.peer, "", head(&description, MOST_DESCRIPTION)).into()])
    }
}

/// Creates the tool that asks an agent. Nothing is fetched before it is called.
pub(super) fn tool_of(peer: &Arc<Peer>, name: &str, description: &str) -> FnTool {
    let mut policy = peer.settings.policy.clone();
    policy.timeout = policy.timeout.or(Some(peer.settings.task_timeout));
    let is_repeatable = policy.is_repeatable();
    let call = Arc::new(RemoteCall { peer: Arc::clone(peer), is_repeatable });
    let tool = FnTool::new(name, description, move |cx: Context, arguments: Arguments| {
        let call = Arc::clone(&call);
        async move {
            let Arguments { message, context, task } = arguments;
            let message = A2aMessage::user_text(message).id(cx.idempotency_key());
            let message = context.into_iter().fold(message, A2aMessage::context);
            let answer = call.made(&cx, task.into_iter().fold(message, A2aMessage::task)).await?;
            output(&call.peer, &answer)
        }
    });
    tool.policy(policy)
}

/// A card as the description of a tool.
fn described(card: &A2aCard) -> String {
    let mut text = format!("Asks the agent {}: {}", card.name, card.description);
    for skill in &card.skills {
        let _ = write!(text, "\n- {}: {}", skill.name, skill.description);
    }
    text
}

/// The answer as the tool's; a task that failed is an error that the model reads.
fn output(peer: &Peer, answer: &A2aAnswer) -> Result<ToolOutput, ToolError> {
    let name = &peer.name;
    let (task, context, state) = match answer {
        A2aAnswer::Message(message) => (None, message.context_id.as_deref(), A2aTaskState::Completed),
        A2aAnswer::Task(task) => (Some(task), task.context_id.as_deref(), task.status.state),
    };
    let said = || task.and_then(|task| task.said()).unwrap_or_else(|| "it does not say why".to_owned());
    let failed = |what: &str| Err(ToolError::new(format!("the A2A agent `{name}` {what}: {}", said())));
    let state = match state {
        A2aTaskState::Completed => "completed",
        A2aTaskState::InputRequired => INPUT_REQUIRED,
        A2aTaskState::AuthRequired => return failed("asks for credentials, which this program cannot give"),
        A2aTaskState::Rejected => return failed("rejected the task"),
        A2aTaskState::Canceled => return failed("cancelled the task"),
        _ => return failed("did not complete the task"),
    };
    let is_asking = state == INPUT_REQUIRED;
    let parts = parts_of(answer);
    let (mut output, mut note) = (answer.text(), None);
    if let Some(task) = task.filter(|_| is_asking) {
        let questions = questions_of(task).map_err(|problem| peer.unanswerable(problem).into_tool_error())?;
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
    let answered = Answered {
        output,
        note,
        agent_id: name,
        endpoint: &peer.address.url,
        state,
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
            let link = part.filename.iter().cloned().fold(ResourceLink::new(url), ResourceLink::name);
            output.with_link(kind.into_iter().fold(link, ResourceLink::mime_type))
        }
        A2aContent::Text(_) | A2aContent::Data(_) => output,
    }
}
