//! Options of commands that read documents. It reads none.

use std::path::PathBuf;

use clap::Args;

use crate::document::DocumentForm;

/// Workflows that are not in the program.
#[derive(Debug, Args)]
pub(super) struct DocumentArgs {
    /// A document, YAML or JSON, or a folder of documents, whose workflows are known too; may be given several times
    #[arg(long = "document", value_name = "PATH")]
    pub(super) documents: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct DryRunArgs {
    /// The workflow, by its name or by the file of its document
    pub(super) name: String,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// Print a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// The one version: the file of a document, or the name of a workflow
    pub(super) old: String,
    /// The other version
    pub(super) new: String,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// Print {"same", "old", "new", "differences"} as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    /// The documents, and folders of documents
    #[arg(value_name = "PATH", required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// Do not look up the tools, agents and workflows that they name in this program
    #[arg(long)]
    pub(super) without_names: bool,
    /// Print an array of {"document", "form", "workflow", "problems"} as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The workflow, by its name or by the file of its document
    pub(super) name: String,
    /// The form
    #[arg(long)]
    pub(super) form: DocumentForm,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// Print JSON in the place of YAML
    #[arg(long)]
    pub(super) json: bool,
}
