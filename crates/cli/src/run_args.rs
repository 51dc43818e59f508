//! Clap types for `agentwf run`, and for options of models.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::args::{EventFormat, RunStartArgs, duration};
use agentflow_core::store::StoreAddress;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) instead: WorkflowInsteadArgs,
    /// The task of the agent; for a workflow, its input `task`, or its only input
    #[arg(long, value_name = "TEXT", required_unless_present = "which")]
    pub(super) task: Option<String>,
    /// The model and its wire format, such as openai-chat/gpt-5-mini
    #[arg(
        long = "model",
        value_name = "REF",
        required_unless_present = "which",
        conflicts_with = "which"
    )]
    pub(super) reference: Option<String>,
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// The tools of the agent, by name [default: none]
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "which")]
    pub(super) tools: Vec<String>,
    /// Scopes to grant to the agent; a tool that requires another scope answers `unauthorized`
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "which")]
    pub(super) grant: Vec<String>,
    /// Maximum number of turns [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "which")]
    pub(super) max_steps: Option<u32>,
    #[command(flatten)]
    pub(super) began: RunStartArgs,
    /// Print all events to standard output instead of the answer
    #[arg(long, value_name = "FORMAT")]
    pub(super) events: Option<EventFormat>,
}

/// Options to run a workflow instead of an agent.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct WorkflowInsteadArgs {
    /// Run this workflow instead of an agent: its name, or the file of a document
    #[arg(value_name = "WORKFLOW", group = "which", conflicts_with = "ModelArgs")]
    pub(super) name: Option<String>,
    /// The same as WORKFLOW
    #[arg(long, value_name = "WORKFLOW", group = "which", conflicts_with = "ModelArgs")]
    pub(super) workflow: Option<String>,
    /// The inputs of the workflow by name, such as '{"n": 3}'
    #[arg(long, value_name = "JSON", requires = "which", conflicts_with = "task")]
    pub(super) input: Option<String>,
    /// Keep the workflow's run in this store, so that it survives this process: a file, which is
    /// created if it does not exist, or a URL such as postgres://user@host/database [default: the
    /// configured store]
    #[arg(long, value_name = "STORE", requires = "which")]
    pub(super) store: Option<StoreAddress>,
    /// The run's id, so that the same request is not started twice; needs a store
    #[arg(long, value_name = "ID", requires = "which")]
    pub(super) run_id: Option<String>,
    /// Only queue the run, for a `worker`, and print its id; needs a store
    #[arg(long, requires = "which", conflicts_with = "events")]
    pub(super) queue: bool,
    /// A document, or a folder of documents, with further workflows; may be given several times
    #[arg(long = "document", value_name = "PATH", requires = "which")]
    pub(super) documents: Vec<PathBuf>,
}

impl WorkflowInsteadArgs {
    /// Returns the name of the workflow, or the file of its document.
    pub(super) fn workflow(&self) -> Option<&str> {
        self.name.as_deref().or(self.workflow.as_deref())
    }
}

/// Options for model calls.
#[derive(Debug, Args)]
pub(super) struct ModelArgs {
    /// The base URL of the model server, in the form of the provider's own SDK (OpenAI: with /v1)
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// Instructions before the prompt
    #[arg(long, value_name = "TEXT")]
    pub(super) instruct: Option<String>,
    /// An additional field of the request, such as temperature=0.2; a value that is not JSON is
    /// sent as text
    #[arg(long = "setting", value_name = "KEY=JSON", value_parser = setting)]
    pub(super) settings: Vec<(String, Value)>,
    /// Time limit of one model call, including retries, such as 90s, 2m or 500ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// Time limit for the first byte of an answer
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) first_byte_timeout: Option<Duration>,
    /// Time limit between two pieces of an answer
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) idle_timeout: Option<Duration>,
    /// Number of retries of a model call that failed before its first piece [default: 2]
    #[arg(long, value_name = "N")]
    pub(super) max_retries: Option<u32>,
}

fn setting(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            Ok((key.trim().to_owned(), value))
        }
        _ => Err("write KEY=JSON, such as temperature=0.2".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings() {
        assert_eq!(setting("temperature=0.5"), Ok(("temperature".to_owned(), Value::from(0.5))));
        assert_eq!(setting("effort=low"), Ok(("effort".to_owned(), Value::from("low"))));
        assert_eq!(
            setting(r#"a={"b":"c=d"}"#),
            Ok(("a".to_owned(), serde_json::json!({"b": "c=d"})))
        );
        assert!(setting("temperature").is_err());
        assert!(setting("=1").is_err());
    }
}
