//! The JSON forms of the API. They are separate from the types of the runtime, so that these can
//! change without breaking clients.

mod catalogue_resource;
mod graph_resource;
mod node_run;
mod page;
mod question_resource;
mod run_resource;

pub(crate) use self::catalogue_resource::{AgentResource, ToolResource, ToolsetResource};
pub(crate) use self::graph_resource::{GraphResource, RunGraphResource};
pub(crate) use self::node_run::{NodeDetail, NodeRunResource};
pub(crate) use self::page::{ListPage, PageParams};
pub(crate) use self::question_resource::QuestionResource;
pub(crate) use self::run_resource::{RunDetail, RunSummary, StartedRun};

use agentflow_core::time::Timestamp;
use agentflow_core::value::Encoded;
use agentflow_views::Rfc3339;
use serde_json::Value;

/// Formats a time in RFC 3339 format.
pub(crate) fn time_text(time: Timestamp) -> String {
    Rfc3339(time).to_string()
}

/// Reads a recorded value as JSON.
pub(crate) fn json_value(value: &Encoded) -> Value {
    serde_json::from_str(value.as_str()).unwrap_or_default()
}
