//! `agentwf sessions`: lists, shows, exports and removes the sessions of a store.

use std::collections::{BTreeMap, BTreeSet};

use agentflow_schema::text::OneLine;
use serde::Serialize;

use super::artifacts::ArtifactOwner;
use super::print::{BOLD, DIM, Stop, counted, line, note, print_json, short};
use super::runs::{said, with_existing_store};
use super::session_args::{SessionsArgs, SessionsCommand};
use super::{artifacts, ctrl_c};
use agentflow_core::event::RunId;
use agentflow_core::message::Role;
use agentflow_core::runtime::Runtime;
use agentflow_core::session::{SessionExport, SessionFilter, SessionRecord, SessionRun};
use agentflow_core::store::{RunFilter, RunRecord, RunStatus};

pub(super) async fn sessions(host: &Runtime, args: SessionsArgs) -> Result<(), Stop> {
    let runtime = with_existing_store(host, args.store.as_ref()).await?;
    ctrl_c::or_stop(command(&runtime, args.command)).await
}

async fn command(runtime: &Runtime, command: SessionsCommand) -> Result<(), Stop> {
    match command {
        SessionsCommand::List { caller, tags, limit, json } => {
            let filter =
                caller.into_iter().fold(SessionFilter::new().limit(limit), SessionFilter::caller);
            let filter =
                tags.into_iter().fold(filter, |filter, (key, value)| filter.tag(key, value));
            let sessions = runtime.sessions().list(filter).await?;
            if json {
                return print_json(&sessions);
            }
            sessions.iter().try_for_each(session_line)?;
            if sessions.is_empty() {
                note("no sessions");
            }
            Ok(())
        }
        SessionsCommand::Show { session, json } => show(runtime, &session, json).await,
        SessionsCommand::Artifacts { session, which } => {
            artifacts::show(runtime, &ArtifactOwner::InSession(session), which).await
        }
        SessionsCommand::Export { session } => {
            print_json(&runtime.sessions().export(&session).await?)
        }
        SessionsCommand::Delete { session, dry_run: false } => {
            let runs = runtime.sessions().delete(&session).await?;
            said(&format!(
                "deleted, with {}",
                counted(runs.try_into().unwrap_or(usize::MAX), "run")
            ))
        }
        SessionsCommand::Delete { session, dry_run: true } => {
            let record = runtime.sessions().get(&session).await?;
            let runs = runtime.runs().list(RunFilter::new().session(session)).await?;
            // The store lists the newest run first.
            runs.iter().rev().try_for_each(run_line)?;
            match &record.unfinished {
                Some(run) => {
                    said(&format!("would not be deleted: the run `{}` has not ended", OneLine(run)))
                }
                None => said(&format!("would be deleted, with {}", counted(runs.len(), "run"))),
            }
        }
        SessionsCommand::Expire { idle, dry_run } => {
            let sessions = match dry_run {
                true => runtime.sessions().purgeable(idle).await?,
                false => runtime.sessions().purge(idle).await?,
            };
            sessions.iter().try_for_each(session_line)?;
            said(&format!(
                "{} {}",
                sessions.len(),
                if dry_run { "would be deleted" } else { "deleted" }
            ))
        }
    }
}

fn session_line(session: &SessionRecord) -> Result<(), Stop> {
    let caller = session
        .caller
        .as_ref()
        .map(|caller| format!(" of {}", OneLine(caller)))
        .unwrap_or_default();
    let open = if session.unfinished.is_some() { ", one of them unfinished" } else { "" };
    line(format_args!(
        "{BOLD}{}{BOLD:#}  {}{caller}{DIM}  {}{open}{DIM:#}",
        OneLine(&session.id),
        OneLine(&session.agent),
        counted(session.runs.try_into().unwrap_or(usize::MAX), "run")
    ))
}

fn run_line(run: &RunRecord) -> Result<(), Stop> {
    line(format_args!("{}  {:<9} {}", OneLine(&run.run_id), run.status, OneLine(&run.name)))
}

/// JSON form of a session for `show --json`.
#[derive(Serialize)]
struct Shown<'a> {
    session: &'a SessionRecord,
    branches: &'a [RunId],
    runs: Vec<SessionRunJson<'a>>,
}

#[derive(Serialize)]
struct SessionRunJson<'a> {
    run_id: &'a RunId,
    number: u64,
    after: Option<&'a RunId>,
    status: RunStatus,
    asked: Option<String>,
}

async fn show(runtime: &Runtime, id: &str, json: bool) -> Result<(), Stop> {
    let branches = runtime.sessions().branches(id).await?;
    let SessionExport { session, runs, .. } = runtime.sessions().export(id).await?;
    if json {
        let runs = runs.iter().map(|run| SessionRunJson {
            run_id: &run.run_id,
            number: run.number,
            after: run.after.as_ref(),
            status: run.status,
            asked: asked(run),
        });
        return print_json(&Shown { session: &session, branches: &branches, runs: runs.collect() });
    }
    session_line(&session)?;
    for (key, value) in &session.tags {
        line(format_args!("  tag: {}", OneLine(format_args!("{key}={value}"))))?;
    }
    line(format_args!("  began {}, last used {}", session.created, session.updated))?;
    let numbers: BTreeMap<&RunId, u64> = runs.iter().map(|run| (&run.run_id, run.number)).collect();
    let ends: BTreeSet<&RunId> = branches.iter().collect();
    for run in &runs {
        let after = run.after.as_ref().and_then(|after| numbers.get(after));
        // The predecessor is printed only if it is not the run in the line above.
        let after = match after {
            Some(after) if after + 1 == run.number => String::new(),
            Some(after) => format!(" after {after}"),
            None if run.number == 1 => String::new(),
            None => " at the beginning".to_owned(),
        };
        let end = match (ends.contains(&run.run_id), session.head.as_ref() == Some(&run.run_id)) {
            (_, true) => "  (the next run continues here)",
            (true, false) if branches.len() > 1 => "  (the end of a branch)",
            _ => "",
        };
        let asked = asked(run).map(|asked| format!("  {}", short(&asked))).unwrap_or_default();
        line(format_args!(
            "  {:>3} {:<9} {}{after}{asked}{DIM}{end}{DIM:#}",
            run.number,
            run.status,
            OneLine(&run.run_id)
        ))?;
    }
    Ok(())
}

/// Returns the user's message of a run.
fn asked(run: &SessionRun) -> Option<String> {
    let asked = run.messages.iter().find(|message| message.role() == Role::User)?;
    Some(asked.text().into_owned())
}
