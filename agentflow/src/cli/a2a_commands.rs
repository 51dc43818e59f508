//! `agentwf a2a`: a look at agents of other programs.

use futures_util::StreamExt;

use super::a2a_args::{A2aAgentArgs, A2aCommand, A2aSendArgs};
use super::print::{Answer, Stop, counted, json_line, line, note};
use super::{a2a_serve, a2a_tasks, ctrl_c};
use crate::a2a::{A2aAnswer, A2aClient, A2aError, A2aMessage, A2aTaskState, A2aUpdate};
use crate::runtime::Runtime;
use crate::text::OneLine;

/// The name of an agent that is tried.
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
        return json_line(&*card);
    }
    let mut lines = vec![format!("{} {}", card.name, card.version)];
    lines.extend(card.description.lines().map(ToOwned::to_owned));
    lines.extend(card.supported_interfaces.iter().map(|interface| {
        let (url, binding, version) = (&interface.url, &interface.protocol_binding, &interface.protocol_version);
        format!("{binding} {version} at {url}")
    }));
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" };
    lines.push(format!("streams: {}", yes_or_no(card.capabilities.streaming)));
    lines.push(format!("push notifications: {}", yes_or_no(card.capabilities.push_notifications)));
    if !card.signatures.is_empty() {
        lines.push(format!("{} not verified", counted(card.signatures.len(), "signature")));
    }
    lines.extend(card.skills.iter().map(|skill| format!("skill {}: {}", skill.id, skill.description)));
    // Control characters of another program are shown nowhere as they are, also where the output is not a terminal.
    lines.iter().try_for_each(|text| line(format_args!("{}", OneLine(text))))
}

async fn send(args: A2aSendArgs) -> Result<(), Stop> {
    let A2aSendArgs { agent, text, task, context, stream, json } = args;
    let client = client_of(&agent)?;
    let message = task.into_iter().fold(A2aMessage::user_text(text), A2aMessage::task);
    let message = context.into_iter().fold(message, A2aMessage::context);
    if stream {
        return ctrl_c::or_stop(streamed(&client, &message)).await;
    }
    let answer = ctrl_c::or_stop(async { Ok(client.ask(&message).await?) }).await?;
    let state = answer.task().map(|task| task.status.state);
    let problem = match (&answer, state) {
        (A2aAnswer::Task(task), Some(state)) => unfinished(state, task.said(), &task.id),
        _ => None,
    };
    if json {
        json_line(&answer)?;
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

/// Why a task is not a success.
fn unfinished(state: A2aTaskState, said: Option<String>, task: &str) -> Option<Stop> {
    let said = said.unwrap_or_else(|| "it says no more".to_owned());
    let is_done = matches!(state, A2aTaskState::Completed);
    (!is_done).then(|| Stop::failed(state.as_str(), format!("{said}\nThe task is `{task}`.")))
}

/// Sends a message and prints each change.
async fn streamed(client: &A2aClient, message: &A2aMessage) -> Result<(), Stop> {
    let mut updates = client.stream(message).await?;
    let mut last = None;
    while let Some(update) = updates.next().await {
        let update = update?;
        json_line(&update)?;
        last = match &update {
            A2aUpdate::Task(task) => Some((task.status.clone(), task.id.clone())),
            A2aUpdate::Status(update) => Some((update.status.clone(), update.task_id.clone())),
            A2aUpdate::Message(_) => None,
            A2aUpdate::Artifact(_) => last,
        };
    }
    let problem =
        last.and_then(|(status, task)| unfinished(status.state, status.message.as_ref().map(A2aMessage::text), &task));
    problem.map_or(Ok(()), Err)
}

pub(super) fn client_of(agent: &A2aAgentArgs) -> Result<A2aClient, Stop> {
    let mut builder = A2aClient::at(AGENT, agent.url.clone());
    if let Some(variable) = &agent.key_from {
        let Ok(key) = std::env::var(variable) else {
            return Err(Stop::failed("a2a", format!("the variable `{variable}` is not set; set it to the key")));
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
