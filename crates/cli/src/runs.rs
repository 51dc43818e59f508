//! `agentwf runs`: lists, shows, resumes and controls the runs of a store.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use agentflow_schema::text::OneLine;
use futures_util::StreamExt;

use super::args::{RunsArgs, RunsCommand};
use super::artifacts::ArtifactOwner;
use super::print::{BOLD, DIM, Stop, line, local_time, note, print_json, sentence, short};
use super::typed_answer::asked_at;
use super::workflows::{FollowOptions, follow};
use super::{artifacts, ctrl_c};
use agentflow_core::event::{Event, RunId};
use agentflow_core::run::Approval;
use agentflow_core::runtime::{
    AttemptReport, NodeStatus, Purge, Recovered, Runtime, UndoReport, UndoStatus,
};
use agentflow_core::store::{RunFilter, RunList, RunStatus, StoreAddress};
use agentflow_core::value::Encoded;

/// Interval at which a run that compensates is inspected.
const LOOK: Duration = Duration::from_millis(500);

/// Default store of commands that need one.
const DEFAULT_STORE: &str = "agentflow.db";

/// Returns the host's runtime over the given store, the configured store, or the default file.
pub(super) async fn with_store(
    host: &Runtime,
    address: Option<&StoreAddress>,
) -> Result<Runtime, Stop> {
    if address.is_none() && host.store().is_some() {
        return Ok(host.clone());
    }
    let store = match address {
        Some(address) => address.open().await?,
        None => StoreAddress::from(DEFAULT_STORE).open().await?,
    };
    Ok(host.with_opened_store(store))
}

/// Returns the same as [`with_store`], but fails if the file of the store does not exist.
pub(super) async fn with_existing_store(
    host: &Runtime,
    address: Option<&StoreAddress>,
) -> Result<Runtime, Stop> {
    if address.is_none() && host.store().is_some() {
        return Ok(host.clone());
    }
    let default = StoreAddress::from(DEFAULT_STORE);
    let address = address.unwrap_or(&default);
    if let Some(path) = address.file().filter(|path| !path.exists()) {
        let path = path.display();
        return Err(Stop::failed(
            "not_found",
            format!("there is no store file `{path}`; name one with --store"),
        ));
    }
    with_store(host, Some(address)).await
}

/// Prints the recovered runs that wait for a person.
pub(super) fn note_waiting(recovered: &Recovered, store: &str) {
    for run in &recovered.waiting {
        note(format_args!("the run `{run}` waits for an answer; see: runs questions{store}"));
    }
}

pub(super) async fn runs(host: &Runtime, args: RunsArgs) -> Result<(), Stop> {
    let runtime = with_existing_store(host, args.store.as_ref()).await?;
    let store = args.store.as_ref();
    match args.command {
        RunsCommand::Resume { run, changes, events } => {
            let runtime = changes
                .map_or_else(|| runtime.clone(), |changes| runtime.with_changes(changes.into()));
            let run = RunId::new(run);
            let before = runtime.run(&run).inspect().await?;
            let ctrl_c = ctrl_c::watch();
            let handle = runtime.run(&run).resume().await?;
            let how = FollowOptions {
                store,
                kept: true,
                events: events.is_some(),
                before: Some(before),
                ctrl_c,
            };
            follow(handle, how).await
        }
        RunsCommand::Retry { run, node, events } => {
            let run = RunId::new(run);
            let before = ctrl_c::or_stop(async { Ok(runtime.run(&run).inspect().await?) }).await?;
            let ctrl_c = ctrl_c::watch();
            // The retry may execute the run in this process, so Ctrl-C is watched before it begins.
            runtime.run(&run).retry(&node, &operator()).await?;
            // Another process executes the run, or it is queued for a program that has its
            // workflow.
            if !runtime.run(&run).is_executed_here() {
                return said(match runtime.run(&run).record().await?.status {
                    RunStatus::Queued => {
                        "the node runs again when the run is resumed by a program that has what it runs"
                    }
                    _ => "the node runs again in the process that executes the run",
                });
            }
            let how = FollowOptions {
                store,
                kept: true,
                events: events.is_some(),
                before: Some(before),
                ctrl_c,
            };
            follow(runtime.run(&run).attach().await?, how).await
        }
        other => ctrl_c::or_stop(command(&runtime, other)).await,
    }
}

/// Returns the name of the user, which is recorded in the journal.
pub(super) fn operator() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "cli".to_owned())
}

/// Executes the commands that do not execute the run in this process.
async fn command(runtime: &Runtime, command: RunsCommand) -> Result<(), Stop> {
    match command {
        RunsCommand::List { status, name, tags, caller, limit, sort, count, json } => {
            let filter = RunFilter::new().limit(limit).order(sort.into());
            let filter = status.into_iter().fold(filter, RunFilter::status);
            let filter = name.into_iter().fold(filter, RunFilter::name);
            let filter = caller.into_iter().fold(filter, RunFilter::caller);
            let filter =
                tags.into_iter().fold(filter, |filter, (key, value)| filter.tag(key, value));
            match count {
                true => count_runs(runtime, filter, json).await,
                false => list(runtime, filter, json).await,
            }
        }
        RunsCommand::Show { run, json } => show(runtime, &RunId::new(run), json).await,
        RunsCommand::Resume { .. } | RunsCommand::Retry { .. } => {
            unreachable!("they execute the run, and have an end of their own")
        }
        RunsCommand::Cancel { run, reason } => cancel(runtime, &RunId::new(run), &reason).await,
        RunsCommand::Pause { run } => {
            let run = RunId::new(run);
            runtime.run(&run).pause().by(operator()).await?;
            said("paused")
        }
        RunsCommand::Unpause { run } => {
            let run = RunId::new(run);
            runtime.run(&run).unpause().by(operator()).await?;
            said("no longer paused")
        }
        RunsCommand::Send { run, text } => {
            let run = RunId::new(run);
            runtime.run(&run).send_message(text).by(operator()).await?;
            said(match runtime.run(&run).record().await?.status {
                RunStatus::Queued => {
                    "sent; the model sees it when the run is resumed by a program that has its agent"
                }
                _ => "sent",
            })
        }
        RunsCommand::Close { run } => {
            runtime.run(&RunId::new(run)).close().by(operator()).await?;
            said("closed")
        }
        RunsCommand::Delete { run } => {
            let deleted = runtime.run(&RunId::new(run)).delete().await?;
            if let Some(problem) = deleted.unreadable {
                note(OneLine(problem));
            }
            for call in &deleted.not_undone {
                note(format_args!("not undone: {}", OneLine(&call.path)));
            }
            said("deleted")
        }
        RunsCommand::Purge { older_than, name, dry_run } => {
            let purge = name.into_iter().fold(Purge::older_than(older_than), Purge::name);
            let runs = match dry_run {
                true => runtime.runs().purgeable(&purge).await?,
                false => runtime.runs().purge(&purge).await?,
            };
            for run in &runs {
                line(format_args!(
                    "{}  {:<9} {}",
                    OneLine(&run.run_id),
                    run.status,
                    OneLine(&run.name)
                ))?;
            }
            said(&format!(
                "{} {}",
                runs.len(),
                if dry_run { "would be deleted" } else { "deleted" }
            ))
        }
        RunsCommand::Questions { name, tags, json } => {
            let filter = name.into_iter().fold(RunFilter::new(), RunFilter::name);
            let filter =
                tags.into_iter().fold(filter, |filter, (key, value)| filter.tag(key, value));
            questions(runtime, filter, json).await
        }
        RunsCommand::Answer { run, node, answer, by } => {
            let (run, by) = (RunId::new(run), by.unwrap_or_else(operator));
            let (asked, question) = asked_at(runtime, &run, &node).await?;
            let answer = asked.read(&answer).map_err(|error| {
                Stop::failed("answer", format!("the answer is not JSON: {error}"))
            })?;
            runtime.run(&run).answer_encoded(&question, answer, &by).await?;
            said("answered")
        }
        RunsCommand::Approve { run, node, deny, comment, arguments, answer, by: name } => {
            let by = name.unwrap_or_else(operator);
            let run = RunId::new(run);
            match answer {
                Some(text) => {
                    let answer = Encoded::from_json(text).map_err(|error| {
                        Stop::failed("answer", format!("the answer is not JSON: {error}"))
                    })?;
                    runtime.run(&run).answer_encoded(&node, answer, &by).await?;
                }
                None => {
                    let read = |text: String| {
                        let problem = |error| {
                            Stop::failed("answer", format!("the arguments are not JSON: {error}"))
                        };
                        serde_json::from_str(&text).map_err(problem)
                    };
                    let arguments = arguments.map(read).transpose()?;
                    let approval = match deny {
                        true => Approval::Denied { comment },
                        false => Approval::Granted { comment, arguments },
                    };
                    runtime.run(&run).approve(&node, approval, &by).await?;
                }
            }
            said("answered")
        }
        RunsCommand::Artifacts { run, which } => {
            artifacts::show(runtime, &ArtifactOwner::ByRun(RunId::new(run)), which).await
        }
        RunsCommand::Events { run, follow, json } => {
            events(runtime, &RunId::new(run), follow, json).await
        }
    }
}

/// Cancels a run. Meanwhile prints the approvals that its compensation waits for, and afterwards
/// the calls that were not compensated.
async fn cancel(runtime: &Runtime, run: &RunId, reason: &str) -> Result<(), Stop> {
    let mut cancelled = pin!(runtime.run(run).cancel(reason).by(operator()).into_future());
    let mut asked = BTreeSet::new();
    let cancelled = loop {
        tokio::select! {
            biased;
            cancelled = &mut cancelled => break cancelled,
            () = tokio::time::sleep(LOOK) => {}
        }
        let calls = runtime.run(run).inspect().await.ok().and_then(|report| report.compensation);
        for path in calls
            .into_iter()
            .flat_map(|compensation| compensation.calls)
            .filter_map(|call| call.asks)
        {
            // Each question is printed only once.
            if asked.insert(path.clone()) {
                note(format_args!(
                    "the run undoes what it had done and waits for the answer to `{}`: give it with `runs approve`, or \
                     cancel the run again to leave that call as it is",
                    OneLine(&path)
                ));
            }
        }
    };
    // A run that had already failed compensates here too, and cannot be cancelled. So the report is
    // printed before an error of the cancellation is returned.
    let report = match runtime.run(run).inspect().await {
        Ok(report) => report,
        Err(error) => return Err(cancelled.err().unwrap_or(error).into()),
    };
    for call in report.compensation.iter().flat_map(|compensation| &compensation.calls) {
        if call.status == UndoStatus::NotUndone {
            let problem = call.problem.as_deref().unwrap_or("the reason is not recorded");
            note(format_args!("not undone: {}: {}", OneLine(&call.path), OneLine(problem)));
        }
    }
    cancelled?;
    said(match report.run.status {
        RunStatus::Cancelled => "cancelled",
        _ => "the compensation that the run waited for is given up",
    })
}

pub(super) fn said(what: &str) -> Result<(), Stop> {
    note(what);
    Ok(())
}

async fn count_runs(runtime: &Runtime, filter: RunFilter, json: bool) -> Result<(), Stop> {
    let count = runtime.runs().count(filter).await?;
    match json {
        true => print_json(&serde_json::json!({ "count": count })),
        false => line(count),
    }
}

async fn list(runtime: &Runtime, filter: RunFilter, json: bool) -> Result<(), Stop> {
    let RunList { runs, unreadable, .. } = runtime.runs().list_with_unreadable(filter).await?;
    for (run, error) in &unreadable {
        note(format_args!("{} cannot be read: {}", OneLine(run), OneLine(error)));
    }
    if json {
        return print_json(&runs);
    }
    for run in &runs {
        let why = match (&run.pause_reason, &run.error) {
            (Some(reason), _) => format!(" ({reason})"),
            (None, Some(error)) => format!(" ({})", short(error)),
            (None, None) => String::new(),
        };
        line(format_args!(
            "{BOLD}{}{BOLD:#}  {:<9} {}{DIM}{why}{DIM:#}",
            OneLine(&run.run_id),
            run.status,
            OneLine(&run.name)
        ))?;
    }
    if runs.is_empty() && unreadable.is_empty() {
        note("no runs");
    }
    Ok(())
}

async fn questions(runtime: &Runtime, filter: RunFilter, json: bool) -> Result<(), Stop> {
    let questions = runtime.runs().questions(filter).await?;
    if json {
        return print_json(&questions);
    }
    for question in &questions {
        line(format_args!(
            "{BOLD}{} {}{BOLD:#}  {}{DIM} (since {}){DIM:#}",
            OneLine(&question.run),
            OneLine(&question.id),
            OneLine(&question.message),
            local_time(question.asked)
        ))?;
    }
    if questions.is_empty() {
        note("nobody is asked");
    }
    Ok(())
}

async fn show(runtime: &Runtime, run: &RunId, json: bool) -> Result<(), Stop> {
    let report = runtime.run(run).inspect().await?;
    if json {
        return print_json(&report);
    }
    let of = &report.run;
    line(format_args!(
        "{BOLD}{}{BOLD:#}  {}  {}, {} events",
        OneLine(&of.run_id),
        of.status,
        OneLine(&of.name),
        of.events
    ))?;
    if let Some(caller) = &of.caller {
        line(format_args!("  caller: {}", OneLine(caller)))?;
    }
    for (key, value) in &of.tags {
        line(format_args!("  tag: {}", OneLine(format_args!("{key}={value}"))))?;
    }
    if let Some(reason) = of.pause_reason {
        line(format_args!("  paused: {reason}"))?;
    }
    if let Some(error) = &of.error {
        sentence(2, error)?;
    }
    if let Some(process) = &report.executed_by {
        line(format_args!("  executed by {}", OneLine(process)))?;
    }
    let ended = of.status.has_ended();
    for call in report.compensation.iter().flat_map(|compensation| &compensation.calls) {
        print_compensation(call)?;
    }
    for node in &report.nodes {
        let number = node.attempts.last().map_or(0, |attempt| attempt.number);
        let attempts = if number > 1 { format!(" attempt {number}") } else { String::new() };
        let next = if ended { "" } else { node.on_resume };
        // An interrupted node has not failed yet. It waits for the decision to retry.
        let (status, next) = match next.strip_prefix("waits for a decision: ") {
            Some(next) if node.status == NodeStatus::Failed => ("waiting for a decision", next),
            _ => (node.status.as_str(), next),
        };
        line(format_args!("  {status:<17} {}{attempts}{DIM}  {next}{DIM:#}", OneLine(&node.name)))?;
        if let Some(error) = node.error.as_ref().filter(|_| node.status == NodeStatus::Failed) {
            sentence(20, error)?;
        }
        for attempt in &node.attempts {
            print_attempt(attempt, node.attempts.len() > 1)?;
        }
        for call in &node.calls {
            line(format_args!("    {:<15} {DIM}{}{DIM:#}", call.status, OneLine(&call.path)))?;
            for attempt in &call.attempts {
                print_attempt(attempt, call.attempts.len() > 1 || attempt.error.is_some())?;
            }
        }
        if let Some(question) = &node.question {
            line(format_args!("  {:<17} asks: {}", "", OneLine(question)))?;
        }
        if let Some(about) = node.about.as_ref().filter(|about| about.as_str() != "null") {
            line(format_args!("  {:<17} about: {}", "", OneLine(about)))?;
        }
    }
    for difference in &report.differences {
        let means = if difference.compatible { "" } else { " (not compatible)" };
        line(format_args!("  differs: {}{means}", OneLine(difference)))?;
    }
    if let Some(changed) = report.changed.filter(|changed| !changed.is_empty()) {
        line(format_args!(
            "  the workflow has changed since; these nodes would run again: {}",
            OneLine(changed.join(", "))
        ))?;
    }
    Ok(())
}

/// Prints a call that the run compensates, with its status.
fn print_compensation(call: &UndoReport) -> Result<(), Stop> {
    let by = if call.by.is_empty() { String::new() } else { format!(" by {}", OneLine(&call.by)) };
    let problem =
        call.problem.as_ref().map(|problem| format!(": {}", OneLine(problem))).unwrap_or_default();
    let asks = call
        .asks
        .as_ref()
        .map(|path| format!(", waits for the answer to {}", OneLine(path)))
        .unwrap_or_default();
    line(format_args!(
        "  undo: {:<11} {}{DIM}{by}{asks}{problem}{DIM:#}",
        call.status,
        OneLine(&call.path)
    ))
}

/// Prints an attempt, if there were several or a person answered it.
fn print_attempt(attempt: &AttemptReport, several: bool) -> Result<(), Stop> {
    let by = attempt
        .answered_by
        .as_ref()
        .map(|by| format!(", answered by {}", short(by)))
        .unwrap_or_default();
    if !several && by.is_empty() {
        return Ok(());
    }
    let took =
        attempt.duration_ms.map_or(" has no end".to_owned(), |took| format!(" took {took} ms"));
    let error =
        attempt.error.as_ref().map(|error| format!(": {}", short(error))).unwrap_or_default();
    line(format_args!("  {:<17} {DIM}attempt {}{took}{by}{error}{DIM:#}", "", attempt.number))
}

async fn events(runtime: &Runtime, run: &RunId, follow: bool, json: bool) -> Result<(), Stop> {
    let print = |event: &Event| match json {
        true => print_json(event),
        false => line(event.line()),
    };
    if !follow {
        return runtime.run(run).journal().await?.iter().try_for_each(print);
    }
    let mut events = runtime.run(run).events(0).await?;
    while let Some(event) = events.next().await {
        print(&event)?;
    }
    Ok(())
}
