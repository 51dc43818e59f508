//! Seams for the crates above the core: settings that an extension keeps in a runtime, tools that are named by an address,
//! and the entries of a configuration.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::agent::RunRequest;
use crate::context::Context;
pub use crate::definition::Known;
#[cfg(feature = "documents")]
pub use crate::document::{open_values, read_values};
use crate::error::Error;
pub use crate::error::with_causes;
pub use crate::event::split_question_id;
pub use crate::future::{BoxFuture, Exclusive};
pub use crate::mask::{self, SecretMasker};
use crate::model::SecretProvider;
pub use crate::model::{ModelServer, adapter_of, provider_named};
use crate::run::{Events, RunHandle};
pub use crate::run::{FirstEvents, asks_approval};
use crate::runtime::{ConfigProblem, Runtime, RuntimeBuilder};
pub use crate::runtime::{RuntimeParts, ToolAddresses, owner_of_notes};
use crate::store::Store;
pub use crate::text_file;
use crate::tool::{ToolRef, ToolsetRef};
pub use crate::tool::{is_dotted, wire_name};
pub use crate::workflow::{ListedNode, question_of};

/// Keeps a value in the runtime. It replaces an earlier value of its type.
pub fn with_part<T: Any + Send + Sync>(mut builder: RuntimeBuilder, part: T) -> RuntimeBuilder {
    builder.host.set_part(part);
    builder
}

/// Returns the source of keys of a builder.
pub fn secrets(builder: &RuntimeBuilder) -> Arc<dyn SecretProvider> {
    Arc::clone(&builder.host.secrets)
}

/// Returns the source of keys of a runtime.
pub fn secrets_of(runtime: &Runtime) -> Arc<dyn SecretProvider> {
    Arc::clone(&runtime.host().secrets)
}

/// Reports an entry of the configuration that cannot be used.
pub fn report_problem(builder: &mut RuntimeBuilder, problem: ConfigProblem) {
    builder.problems.push(problem);
}

/// Adds a provider of models. If its entry cannot be used, opening a model fails with the reason.
pub fn with_provider(
    builder: RuntimeBuilder,
    name: &str,
    server: Result<ModelServer, ConfigProblem>,
) -> RuntimeBuilder {
    builder.configured_provider(name, server)
}

/// Adds a toolset. It replaces an earlier toolset of its name.
pub fn add_toolset(builder: &mut RuntimeBuilder, toolset: ToolsetRef) {
    builder.configured_toolset(toolset);
}

/// Adds a tool. It replaces an earlier tool of its name.
pub fn add_tool(builder: &mut RuntimeBuilder, tool: ToolRef) {
    builder.configured_tool(tool);
}

/// Sets the store of a builder.
pub fn set_store(builder: &mut RuntimeBuilder, store: Arc<dyn Store>) {
    builder.host.set_store(store);
}

/// Returns the events of the run that a call belongs to, from the first one.
pub fn events_of(cx: &Context) -> Events {
    Events::new(Arc::clone(cx.run()), 0)
}

/// Returns the message without the data that the runtime's redaction removes.
pub fn redacted(runtime: &Runtime, sentence: impl fmt::Display) -> String {
    runtime.host().redacted(sentence)
}

/// Returns the maximum size of the output of a step, in bytes.
pub fn max_output_bytes(runtime: &Runtime) -> usize {
    runtime.host().max_output_bytes
}

/// Has a request announce the first events of its run.
pub fn announce_events(request: &mut RunRequest, events: FirstEvents) {
    request.first_events = Some(events);
}

/// Returns the error of an input that is not JSON.
pub fn value_error(name: &Arc<str>, error: &serde_json::Error) -> Error {
    Error::value(name, error)
}

/// Waits until a question of a run is answered or withdrawn.
///
/// # Errors
/// The error of reading the run.
pub async fn question_closed<T>(run: &RunHandle<T>, id: &str) -> Result<(), Error> {
    run.until_closed(id).await
}
