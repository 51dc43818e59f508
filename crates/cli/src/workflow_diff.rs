//! `agentwf workflow diff`: prints the differences between two versions of a workflow, each given
//! as a document or by name.

use std::path::Path;
use std::sync::Arc;

use agentflow_schema::text::OneLine;
use serde_json::json;

use super::document_args::DiffArgs;
use super::print::{DIM, Stop, line, note, print_json};
use super::validate;
use agentflow_core::__private::extension::Known;
use agentflow_core::document::Document;
use agentflow_core::runtime::Runtime;

/// A version of a workflow to compare.
struct Side {
    workflow: String,
    definition: Arc<str>,
    /// Hash of its document.
    document: Option<Arc<str>>,
    parts: Arc<Known>,
}

pub(super) async fn diff(host: &Runtime, args: &DiffArgs) -> Result<(), Stop> {
    let with_documents = validate::with(host, &args.documents)?;
    with_documents.report_mistakes()?;
    let host = with_documents.host;
    let (old, new) = (side(&host, &args.old).await?, side(&host, &args.new).await?);
    let differences = old.parts.definition.differences(&new.parts.definition);
    let is_same = differences.is_empty() && old.definition == new.definition;
    if args.json {
        let shown = |side: &Side| json!({"workflow": side.workflow, "definition": side.definition, "document": side.document});
        let with_phrase = differences.iter().map(|difference| {
            let mut json = json!(difference);
            json["message"] = difference.to_string().into();
            json
        });
        let all: Vec<_> = with_phrase.collect();
        print_json(
            &json!({"same": is_same, "old": shown(&old), "new": shown(&new), "differences": all}),
        )?;
    } else {
        for difference in &differences {
            let runs = if difference.compatible {
                ""
            } else {
                "; a run of the one cannot continue as the other"
            };
            line(format_args!("{}{DIM}{runs}{DIM:#}", OneLine(difference)))?;
        }
        if is_same {
            note(format_args!("they are the same: definition {}", old.definition));
        } else if differences.is_empty() {
            line(format_args!("the definition: {} and {}", old.definition, new.definition))?;
        }
    }
    if is_same { Ok(()) } else { Err(Stop::Said) }
}

/// Loads a version: the document if such a file exists, otherwise the workflow with this name.
async fn side(host: &Runtime, what: &str) -> Result<Side, Stop> {
    let path = Path::new(what);
    let (name, document, host) = match path.is_file() {
        true => {
            let document = Document::open(path).map_err(said)?;
            // Each document is checked separately, because the two versions may have the same name.
            host.documents().check(&document).await.map_err(said)?;
            let hash = document.hash();
            (document.name().to_owned(), Some(hash), host.documents().with_only(&document))
        }
        false => (what.to_owned(), None, host.clone()),
    };
    let (definition, parts) = host.catalogue().definition_of(&name).await?;
    Ok(Side { workflow: name, definition, document, parts })
}

fn said(error: impl std::fmt::Display) -> Stop {
    note(format_args!("{error}\n"));
    Stop::Said
}
