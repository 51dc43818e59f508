//! `agentwf documents`: saves, lists, compares and removes the documents of a store.

use std::path::Path;

use agentflow_schema::text::OneLine;
use serde_json::json;

use super::ctrl_c;
use super::print::{Answer, BOLD, DIM, Stop, line, local_time, note, print_json};
use super::runs::{operator, said, with_existing_store, with_store};
use super::stored_document_args::{DocumentsArgs, DocumentsCommand, PutArgs};
use super::validate::{report, show};
use agentflow_core::document::{Document, DocumentError};
use agentflow_core::runtime::{DocumentsError, Runtime};
use agentflow_core::store::DocumentRecord;

pub(super) async fn documents(host: &Runtime, args: DocumentsArgs) -> Result<(), Stop> {
    let store = args.store.as_ref();
    // The first document may create the file of the store.
    let runtime = match &args.command {
        DocumentsCommand::Put(_) => with_store(host, store).await?,
        _ => with_existing_store(host, store).await?,
    };
    ctrl_c::or_stop(command(&runtime, args.command)).await
}

async fn command(runtime: &Runtime, command: DocumentsCommand) -> Result<(), Stop> {
    let documents = runtime.documents();
    match command {
        DocumentsCommand::List { after, limit, json } => {
            list(&documents.list(after.as_deref(), limit).await?, json, "no documents")
        }
        DocumentsCommand::Versions { name, before, limit, json } => {
            list(&documents.versions(&name, before, limit).await?, json, "no versions")
        }
        DocumentsCommand::Get { name, number, json } => {
            let found = documents.get(&name, number).await?;
            if json {
                return print_json(&json!({"document": found.record, "text": found.text}));
            }
            let mut answer = Answer::new();
            answer.push(&found.text)?;
            answer.end_line()
        }
        DocumentsCommand::Put(args) => put(runtime, args).await,
        DocumentsCommand::Diff { name, old, new, json } => {
            let diff = documents.diff(&name, old, new).await?;
            let same = diff.is_empty();
            if json {
                print_json(&json!({"same": same, "diff": diff}))?;
            } else {
                let mut answer = Answer::new();
                answer.push(&diff)?;
                answer.end_line()?;
            }
            if same { Ok(()) } else { Err(Stop::Said) }
        }
        DocumentsCommand::Remove { name, expect_version, json } => {
            let mut remove = documents.remove(name).by(operator());
            if let Some(version) = expect_version {
                remove = remove.expect_version(version);
            }
            let removed = remove.await?;
            match json {
                true => print_json(&removed),
                false => said(&format!(
                    "removed; its last version is {}, which can still be read",
                    removed.version
                )),
            }
        }
        DocumentsCommand::Validate { file, json } => validate(runtime, &file, json).await,
    }
}

fn list(records: &[DocumentRecord], json: bool, none: &str) -> Result<(), Stop> {
    if json {
        return print_json(&records);
    }
    records.iter().try_for_each(record_line)?;
    if records.is_empty() {
        note(none);
    }
    Ok(())
}

fn record_line(record: &DocumentRecord) -> Result<(), Stop> {
    let author = record.author.as_ref().map(|author| format!(" by {}", OneLine(author)));
    let comment = record.comment.as_ref().map(|comment| format!("  {}", OneLine(comment)));
    line(format_args!(
        "{BOLD}{}{BOLD:#}  version {}, form {}{DIM}  {}{}  {}{DIM:#}{}",
        OneLine(&record.name),
        record.version,
        OneLine(&record.form),
        local_time(record.created),
        author.unwrap_or_default(),
        &record.checksum.get(..12).unwrap_or_default(),
        comment.unwrap_or_default(),
    ))
}

/// Reads a file. Mistakes include the names that the program does not have.
async fn read(runtime: &Runtime, file: &Path) -> Result<Document, DocumentError> {
    match Document::open(file) {
        Ok(document) => Ok(document),
        Err(error) => Err(runtime.documents().check_readable_parts(error).await),
    }
}

async fn put(runtime: &Runtime, args: PutArgs) -> Result<(), Stop> {
    let document = read(runtime, &args.file).await.map_err(mistakes)?;
    let mut put = runtime.documents().put(document.name(), document.text());
    put = put.by(args.by.unwrap_or_else(operator));
    if let Some(version) = args.expect_version {
        put = put.expect_version(version);
    }
    if args.expect_absent {
        put = put.expect_absent();
    }
    if let Some(comment) = args.comment {
        put = put.comment(comment);
    }
    let saved = put.await?;
    if args.json { print_json(&saved) } else { record_line(&saved) }
}

async fn validate(runtime: &Runtime, file: &Path, json: bool) -> Result<(), Stop> {
    let read = read(runtime, file).await;
    let wrong = match &read {
        Ok(document) => runtime.documents().validate(document.text()).await.err(),
        Err(error) => Some(error.clone()),
    };
    match json {
        true => print_json(&report(&read, wrong.as_ref()))?,
        false => show(&read, wrong.as_ref())?,
    }
    if wrong.is_some() { Err(Stop::Said) } else { Ok(()) }
}

/// Prints the mistakes of a document.
fn mistakes(error: DocumentError) -> Stop {
    note(format_args!("{error}\n"));
    Stop::Said
}

impl From<DocumentsError> for Stop {
    fn from(error: DocumentsError) -> Self {
        match error {
            DocumentsError::Invalid(error) => mistakes(error),
            DocumentsError::Store(error) => error.into(),
            DocumentsError::NotFound { .. } => Self::failed("not_found", error.to_string()),
            DocumentsError::Conflict { .. } => Self::failed("conflict", error.to_string()),
            error => Self::failed("documents", error.to_string()),
        }
    }
}
