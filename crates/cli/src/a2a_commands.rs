//! `agentwf a2a`: the card of a remote agent, and messages to it.

use agentflow_schema::text::OneLine;
use futures_util::StreamExt;
use serde_json::Value;

use super::a2a_args::{A2aAgentArgs, A2aCommand, A2aSendArgs};
use super::print::{Answer, Stop, counted, line, note, print_json};
use super::{a2a_serve, a2a_tasks, ctrl_c};
use agentflow_a2a::a2a::{
    A2aClient, A2aError, A2aMessage, A2aPart, A2aTask, A2aTaskState, A2aUpdate,
};
use agentflow_core::runtime::Runtime;

/// Name of the remote agent in this program.
const AGENT: &str = "agent";

pub(super) async fn a2a(host: &Runtime, command: A2aCommand) -> Result<(), Stop> {
    match command {
        A2aCommand::Card { agent, json } => card(&agent, json).await,
        A2aCommand::Send(args) => send(args).await,
        A2aCommand::Task(args) => a2a_tasks::task(args, false).await,
        A2aCommand::Cancel(args) => a2a_tasks::task(args, true).await,
        A2aCommand::Tasks(args) => a2a_tasks::tasks(args).await,
        A2aCommand::Serve(args) => a2a_serve::serve(host, args).await,
    }
}

async fn card(agent: &A2aAgentArgs, json: bool) -> Result<(), Stop> {
    let client = client_of(agent)?;
    let card = ctrl_c::or_stop(async { Ok(client.card().await?) }).await?;
    if json {
        if !card.signatures.is_empty() {
            note("the signatures of the card are not verified");
        }
        return print_json(&*card);
    }
    let mut lines = vec![format!("{} {}", card.name, card.version)];
    lines.extend(card.description.lines().map(ToOwned::to_owned));
    lines.extend(card.supported_interfaces.iter().map(|interface| {
        let (url, binding, version) =
            (&interface.url, &interface.protocol_binding, &interface.protocol_version);
        format!("{binding} {version} at {url}")
    }));
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" };
    lines.push(format!("streams: {}", yes_or_no(card.capabilities.streaming)));
    lines.push(format!("push notifications: {}", yes_or_no(card.capabilities.push_notifications)));
    if !card.signatures.is_empty() {
        lines.push(format!("{} not verified", counted(card.signatures.len(), "signature")));
    }
    lines.extend(
        card.skills.iter().map(|skill| format!("skill {}: {}", skill.id, skill.description)),
    );
    // Control characters from a remote server are always escaped, even if the output is not a
    // terminal.
    lines.iter().try_for_each(|text| line(format_args!("{}", OneLine(text))))
}

async fn send(args: A2aSendArgs) -> Result<(), Stop> {
    let A2aSendArgs { agent, text, data, task, context, stream, json } = args;
    let client = client_of(&agent)?;
    let message = match (task, data) {
        (task, Some(data)) => {
            let data = serde_json::from_str::<Value>(&data)
                .map_err(|error| Stop::failed("a2a", format!("`--data` is not JSON: {error}")))?;
            task.into_iter().fold(A2aMessage::user([A2aPart::data(data)]), A2aMessage::task)
        }
        (Some(task), None) => {
            ctrl_c::or_stop(async { Ok(client.answer(&task, text.unwrap_or_default()).await?) })
                .await?
        }
        (None, None) => A2aMessage::user_text(text.unwrap_or_default()),
    };
    let message = context.into_iter().fold(message, A2aMessage::context);
    if stream {
        return ctrl_c::or_stop(streamed(&client, &message)).await;
    }
    let answer = ctrl_c::or_stop(async { Ok(client.ask(&message).await?) }).await?;
    let problem = answer.task().and_then(unfinished);
    if json {
        print_json(&answer)?;
        return if problem.is_none() { Ok(()) } else { Err(Stop::Said) };
    }
    if let Some(problem) = problem {
        return Err(problem);
    }
    let text = answer.text();
    if text.is_empty() {
        note("the agent ended the task without a text; --json shows all that it sent");
    }
    let mut printed = Answer::new();
    printed.push(&text)?;
    printed.end_line()
}

/// Returns the error for a task that did not complete, or `None` if it completed.
fn unfinished(task: &A2aTask) -> Option<Stop> {
    let state = task.status.state;
    let said = match state {
        A2aTaskState::Completed => return None,
        A2aTaskState::InputRequired => task.question().or_else(|| task.said()),
        _ => task.said(),
    };
    let said = said.unwrap_or_else(|| match state {
        A2aTaskState::InputRequired => {
            "its question cannot be shown; --json shows all that it sent".to_owned()
        }
        A2aTaskState::Canceled => "the task was cancelled".to_owned(),
        A2aTaskState::AuthRequired => "the agent asks for credentials".to_owned(),
        _ => "the task failed, and the agent gives no reason".to_owned(),
    });
    Some(Stop::failed(state.as_str(), format!("{said}\nThe task is `{}`.", task.id)))
}

/// Sends a message and prints each update.
async fn streamed(client: &A2aClient, message: &A2aMessage) -> Result<(), Stop> {
    let mut updates = client.stream(message).await?;
    let mut last: Option<A2aTask> = None;
    while let Some(update) = updates.next().await {
        let update = update?;
        print_json(&update)?;
        // For a further message to a known task, the stream may begin with an update instead of the
        // task.
        if let (None, Some(id)) = (&last, update.task_id()) {
            last = Some(A2aTask::new(id, "", A2aTaskState::Working));
        }
        match (update, &mut last) {
            (A2aUpdate::Task(task), last) => *last = Some(*task),
            (A2aUpdate::Status(update), Some(task)) => task.apply_status(*update),
            (A2aUpdate::Artifact(update), Some(task)) => task.apply_artifact(*update),
            (A2aUpdate::Message(_), last) => *last = None,
            _ => {}
        }
    }
    last.as_ref().and_then(unfinished).map_or(Ok(()), Err)
}

pub(super) fn client_of(agent: &A2aAgentArgs) -> Result<A2aClient, Stop> {
    let mut builder = A2aClient::at(AGENT, agent.url.clone());
    if let Some(variable) = &agent.key_from {
        let Ok(key) = std::env::var(variable) else {
            return Err(Stop::failed(
                "a2a",
                format!("the variable `{variable}` is not set; set it to the key"),
            ));
        };
        builder = builder.bearer(key);
    }
    Ok(builder.build()?)
}

impl From<A2aError> for Stop {
    fn from(error: A2aError) -> Self {
        Self::failed("a2a", error.to_string())
    }
}
