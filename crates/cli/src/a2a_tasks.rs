//! `agentwf a2a task`, `tasks` and `cancel`: tasks of a remote agent.

use super::a2a_args::{A2aTaskArgs, A2aTasksArgs};
use super::a2a_commands::client_of;
use super::ctrl_c;
use super::print::{Answer, Stop, note, print_json};
use agentflow_a2a::a2a::{A2aRole, A2aTask, A2aTaskQuery, A2aTaskState};

/// Shows a task. With `cancels`, cancels it first.
pub(super) async fn task(args: A2aTaskArgs, cancels: bool) -> Result<(), Stop> {
    let A2aTaskArgs { agent, id, history, json } = args;
    let client = client_of(&agent)?;
    let shown = async {
        Ok(match (cancels, history) {
            (true, _) => client.cancel(&id).await?,
            (false, Some(messages)) => client.task_with_history(&id, messages).await?,
            (false, None) => client.task(&id).await?,
        })
    };
    let task = ctrl_c::or_stop(shown).await?;
    if cancels && task.status.state != A2aTaskState::Canceled {
        note("the agent did not cancel the task");
    }
    if json {
        return print_json(&task);
    }
    let mut lines = vec![line(&task)];
    lines.extend(task.history.iter().map(|message| {
        let who = if message.role == A2aRole::User { "client" } else { "agent" };
        format!("{who}: {}", message.text())
    }));
    lines.extend(
        Some(task.question().unwrap_or_else(|| task.text())).filter(|text| !text.is_empty()),
    );
    printed(&lines)
}

pub(super) async fn tasks(args: A2aTasksArgs) -> Result<(), Stop> {
    let A2aTasksArgs { agent, context, page, json } = args;
    let client = client_of(&agent)?;
    let query = context.into_iter().fold(A2aTaskQuery::default(), A2aTaskQuery::context);
    let query = page.into_iter().fold(query, A2aTaskQuery::page);
    let tasks = ctrl_c::or_stop(async { Ok(client.tasks(&query).await?) }).await?;
    if json {
        return print_json(&tasks);
    }
    let mut lines: Vec<String> = tasks.tasks.iter().map(line).collect();
    if !tasks.next_page_token.is_empty() {
        lines.push(format!("there are more: --page {}", tasks.next_page_token));
    }
    printed(&lines)
}

fn line(task: &A2aTask) -> String {
    format!("{} {}", task.id, task.status.state.as_str())
}

fn printed(lines: &[String]) -> Result<(), Stop> {
    let mut answer = Answer::new();
    answer.push(&lines.join("\n"))?;
    answer.end_line()
}
