//! `agentwf run` with a workflow: finds the workflow by name or document, and passes the task as
//! one of its inputs.

use std::path::Path;

use serde_json::json;

use super::args::WorkflowRunArgs;
use super::document_args::DocumentArgs;
use super::print::{Stop, note};
use super::run_args::RunArgs;
use super::{validate, workflows};
use agentflow_core::document::Document;
use agentflow_core::runtime::Runtime;

/// Name of the input for the task, if a workflow has several inputs.
const TASK: &str = "task";

/// Runs a workflow, given by its name or the file of its document.
pub(super) async fn run(host: &Runtime, workflow: &str, args: RunArgs) -> Result<(), Stop> {
    let RunArgs { instead, task, began, events, .. } = args;
    let mut documents = instead.documents;
    let name = named(workflow, &mut documents)?;
    let documents = DocumentArgs { documents };
    let input = match &task {
        Some(task) => Some(
            input_of(&validate::load_documents_for(host, &documents, &name).await?, &name, task)
                .await?,
        ),
        None => instead.input,
    };
    let args = WorkflowRunArgs {
        name,
        input,
        store: instead.store,
        run_id: instead.run_id,
        document_version: None,
        documents,
        began,
        queue: instead.queue,
        events,
    };
    workflows::run(host, args).await
}

/// Returns the name of a workflow, given by its name or by the file of its document. Adds the file
/// to the documents.
pub(super) fn named(
    workflow: &str,
    documents: &mut Vec<std::path::PathBuf>,
) -> Result<String, Stop> {
    let path = Path::new(workflow);
    let is_document = path
        .extension()
        .is_some_and(|kind| ["yaml", "yml", "json"].iter().any(|known| kind == *known));
    if !path.is_file() {
        return match is_document {
            true => Err(Stop::failed("not_found", format!("there is no file `{workflow}`"))),
            false => Ok(workflow.to_owned()),
        };
    }
    let document = Document::open(path).map_err(|error| {
        note(format_args!("{error}\n"));
        Stop::Said
    })?;
    if !documents.iter().any(|given| path.starts_with(given)) {
        documents.push(path.to_owned());
    }
    Ok(document.name().to_owned())
}

/// Builds the inputs of a workflow from a task.
async fn input_of(host: &Runtime, name: &str, task: &str) -> Result<String, Stop> {
    drop(host.catalogue().fetch_toolsets_of(name).await);
    let graph = host.catalogue().workflow_graph(name)?;
    let names: Vec<&str> = graph.inputs().map(|input| input.name.as_str()).collect();
    let input = match names.as_slice() {
        [one] => one,
        several if several.contains(&TASK) => TASK,
        several => {
            let said = match several {
                [] => "no inputs".to_owned(),
                several => format!(
                    "the inputs {}",
                    several.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                ),
            };
            let problem = format!(
                "the workflow `{name}` has {said}, and none of them is `{TASK}`; write --input '{{\"name\": value}}' in the place of --task"
            );
            return Err(Stop::failed("input", problem));
        }
    };
    Ok(json!({ input: task }).to_string())
}
