//! `agentwf workflow validate` and `export`, and loading of the documents given to other commands.

use std::path::{Path, PathBuf};

use agentflow_schema::text::OneLine;
use serde_json::json;

use super::document_args::{DocumentArgs, ExportArgs, ValidateArgs};
use super::print::{BOLD, DIM, Stop, line, note, print_json};
use agentflow_core::document::{Document, DocumentError, DocumentForm, to_yaml};
use agentflow_core::runtime::Runtime;

/// Result of reading a document.
type Read = Result<Document, DocumentError>;

/// A host with the workflows of documents.
pub(super) struct HostWithDocuments {
    /// The host, including every readable document.
    pub(super) host: Runtime,
    /// Readable documents.
    pub(super) documents: Vec<Document>,
    /// Errors of unreadable documents.
    mistaken: Vec<DocumentError>,
}

impl HostWithDocuments {
    /// Prints the names of documents with mistakes, for commands that continue without them.
    pub(super) fn note_mistakes(&self) {
        for error in &self.mistaken {
            note(format_args!(
                "the document {} has mistakes and is left out; see `validate`",
                OneLine(error.name())
            ));
        }
    }

    /// Prints all mistakes. Fails if there are any.
    pub(super) fn report_mistakes(&self) -> Result<(), Stop> {
        for error in &self.mistaken {
            note(format_args!("{error}\n"));
        }
        if self.mistaken.is_empty() { Ok(()) } else { Err(Stop::Said) }
    }
}

/// Reads documents and adds them to a host. Documents with mistakes are left out.
pub(super) fn with(host: &Runtime, args: &DocumentArgs) -> Result<HostWithDocuments, Stop> {
    let (mut documents, mut mistaken) = (Vec::new(), Vec::new());
    for read in read_all(&args.documents)? {
        match read {
            Ok(document) => documents.push(document),
            Err(error) => mistaken.push(error),
        }
    }
    let host = match args.documents.is_empty() {
        true => host.clone(),
        false => host.documents().with_more(&documents, &mistaken),
    };
    Ok(HostWithDocuments { host, documents, mistaken })
}

/// Reads documents for a command about one workflow. If the workflow is found, documents with
/// mistakes are only mentioned. If it is not found, their mistakes are printed with lines, because
/// one of them may define it.
pub(super) async fn load_documents_for(
    host: &Runtime,
    args: &DocumentArgs,
    name: &str,
) -> Result<Runtime, Stop> {
    let with_documents = with(host, args)?;
    for document in with_documents.documents.iter().filter(|document| document.name() == name) {
        if let Err(error) = with_documents.host.documents().check(document).await {
            note(format_args!("{error}\n"));
            return Err(Stop::Said);
        }
    }
    let is_read = with_documents.documents.iter().any(|document| document.name() == name);
    if !is_read && host.catalogue().workflow_graph(name).is_err() {
        with_documents.report_mistakes()?;
    }
    with_documents.note_mistakes();
    Ok(with_documents.host)
}

pub(super) async fn validate(host: &Runtime, args: &ValidateArgs) -> Result<(), Stop> {
    let all = read_all(&args.paths)?;
    // The host gets all documents before each is checked, because their workflows may call each
    // other.
    let documents: Vec<Document> = all.iter().flatten().cloned().collect();
    let host =
        host.documents().with_more(&documents, all.iter().filter_map(|read| read.as_ref().err()));
    let (mut reports, mut failed) = (Vec::new(), false);
    for read in all {
        let checked = match &read {
            Ok(document) if !args.without_names => host.documents().check(document).await.err(),
            Ok(_) => None,
            Err(error) if args.without_names => Some(error.clone()),
            // Also checks the parts of the document that could be read.
            Err(error) => Some(host.documents().check_readable_parts(error.clone()).await),
        };
        failed |= checked.is_some();
        match args.json {
            true => reports.push(report(&read, checked.as_ref())),
            false => show(&read, checked.as_ref())?,
        }
    }
    if args.json {
        print_json(&reports)?;
    }
    if failed { Err(Stop::Said) } else { Ok(()) }
}

/// Prints a workflow as a document in a different form.
pub(super) fn export(host: &Runtime, args: &ExportArgs) -> Result<(), Stop> {
    let with_documents = with(host, &args.documents)?;
    let host = &with_documents.host;
    let document = with_documents.documents.iter().find(|document| document.name() == args.name);
    if document.is_none() {
        with_documents.report_mistakes()?;
    }
    let exported = match (document, host.catalogue().given_graph(&args.name)) {
        (Some(document), _) => document.export(args.form),
        (None, Some(graph)) => {
            // Only the tree form contains nested graphs; other forms refer to them by name.
            let inner = if args.form == DocumentForm::Tree {
                host.catalogue().graphs_within(&graph)
            } else {
                Vec::new()
            };
            args.form.export_with(&graph, &inner)
        }
        (None, None) => args.form.export(&host.catalogue().workflow_graph(&args.name)?),
    };
    let exported = exported.map_err(|error| Stop::failed("export", error.to_string()))?;
    match args.json {
        true => print_json(&exported),
        false => line(to_yaml(&exported).trim_end()),
    }
}

pub(super) fn show(read: &Read, error: Option<&DocumentError>) -> Result<(), Stop> {
    match (read, error) {
        (_, Some(error)) => {
            note(format_args!("{error}\n"));
            Ok(())
        }
        (Ok(document), None) => {
            let (name, graph) = (OneLine(document.source_name()), document.graph());
            let nodes = graph.nodes.len() - graph.inputs().count();
            let count = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
            line(format_args!(
                "{BOLD}{}{BOLD:#} {DIM}{name}: form {}, {count}{DIM:#}",
                OneLine(document.name()),
                document.form()
            ))
        }
        (Err(_), None) => Ok(()),
    }
}

pub(super) fn report(read: &Read, error: Option<&DocumentError>) -> serde_json::Value {
    let problems = error.map(|error| {
        let place = |problem: &agentflow_core::diagnostic::Diagnostic| {
            json!({
                "code": problem.code().name(),
                "severity": problem.severity(),
                "line": problem.line(),
                "column": problem.column(),
                "message": problem.message(),
                "location": problem.location(),
                "suggestion": problem.suggestion(),
            })
        };
        error.problems().iter().map(place).collect::<Vec<_>>()
    });
    let (name, form, workflow) = match read {
        Ok(document) => {
            (document.source_name(), Some(document.form().as_str()), Some(document.name()))
        }
        Err(error) => (error.name(), None, None),
    };
    json!({"document": name, "form": form, "workflow": workflow, "problems": problems.unwrap_or_default()})
}

/// Reads the documents at paths. Each path is a document or a folder.
fn read_all(paths: &[PathBuf]) -> Result<Vec<Read>, Stop> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(read(path)?);
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Vec<Read>, Stop> {
    if !path.exists() {
        return Err(Stop::failed(
            "not_found",
            format!("there is no file or folder `{}`", path.display()),
        ));
    }
    if !path.is_dir() {
        return Ok(vec![Document::open(path)]);
    }
    match Document::open_all(path) {
        Ok(all) => Ok(all),
        Err(error) => Err(Stop::failed("io", error.to_string())),
    }
}
