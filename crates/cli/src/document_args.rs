//! Clap types for commands that read documents.

use std::path::PathBuf;

use clap::Args;

use agentflow_core::document::DocumentForm;

/// Workflow documents to load in addition to the program's workflows.
#[derive(Debug, Args)]
pub(super) struct DocumentArgs {
    /// A YAML or JSON document, or a folder of documents, with further workflows; may be given
    /// several times
    #[arg(long = "document", value_name = "PATH")]
    pub(super) documents: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct DryRunArgs {
    /// The workflow: its name, or the file of its document
    pub(super) name: String,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// Print a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// The old version: the file of a document, or the name of a workflow
    pub(super) old: String,
    /// The new version
    pub(super) new: String,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// Print {"same", "old", "new", "differences"} as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    /// Documents and folders of documents
    #[arg(value_name = "PATH", required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// Skip the lookup of the tools, agents and workflows that the documents name
    #[arg(long)]
    pub(super) without_names: bool,
    /// Print an array of {"document", "form", "workflow", "problems"} as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The workflow: its name, or the file of its document
    pub(super) name: String,
    /// The form of the document
    #[arg(long)]
    pub(super) form: DocumentForm,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// Print JSON instead of YAML
    #[arg(long)]
    pub(super) json: bool,
}
