//! Starts and calls documents that are included in the program, with the types that the macro
//! declares.

#![allow(missing_docs, reason = "named by expansions only")]

use std::sync::Arc;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::runtime::Runtime;
use crate::runtime::execution::start_run::{Described, StartRun};
use crate::runtime::execution::workflow_runs::undecoded;
use crate::tool::CurrentStep;
use crate::value::{Encoded, NodeValue};
use crate::workflow::run_by_names;

/// Inputs of an included document.
#[derive(Debug, Default)]
pub struct IncludedInputs {
    json: String,
    problem: Option<serde_json::Error>,
}

impl IncludedInputs {
    /// Adds an input.
    #[must_use]
    pub fn with(mut self, name: &str, value: &impl NodeValue) -> Self {
        match value.encode() {
            Ok(value) => {
                let between = if self.json.is_empty() { "{" } else { "," };
                let name = serde_json::Value::from(name);
                self.json.push_str(&format!("{between}{name}:{}", value.as_str()));
            }
            Err(problem) => self.problem = Some(problem),
        }
        self
    }

    fn object(self, workflow: &Arc<str>) -> Result<Encoded> {
        let json = if self.json.is_empty() { "{".to_owned() } else { self.json };
        let read = match self.problem {
            Some(problem) => Err(problem),
            None => Encoded::from_json(json + "}"),
        };
        read.map_err(|error| Error::value(workflow, &error))
    }
}

/// Creates the request to start a run of an included document.
pub fn start_included<'r, T: NodeValue>(
    runtime: &'r Runtime,
    name: &'static str,
    inputs: IncludedInputs,
) -> StartRun<'r, T> {
    let name: Arc<str> = name.into();
    let object = inputs.object(&name);
    let of = Arc::clone(&name);
    let decode =
        move |ended| T::decode(&undecoded(ended)?).map_err(|error| Error::value(&of, &error));
    StartRun::new(runtime, Described::Named(name, object), Box::new(decode))
}

/// Runs an included document and returns its output: as a step of the context's run or of the run
/// that polls the caller, or else as a top-level run.
///
/// # Errors
/// As [`Runtime::start_named`], and the error that ends the run.
pub async fn run_included<T: NodeValue>(
    cx: Option<&Context>,
    name: &'static str,
    inputs: IncludedInputs,
) -> Result<T> {
    let cx = cx.cloned().or_else(CurrentStep::context).unwrap_or_else(Context::detached);
    let object = inputs.object(&name.into())?;
    let spec = cx.runtime().catalogue().fetched_workflow_spec(name).await?;
    let output = run_by_names(&spec, &cx, &object).await?;
    T::decode(&output).map_err(|error| Error::value(&spec.name, &error))
}
