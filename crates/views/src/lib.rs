//! Views of a run's events in the formats of other interfaces (feature `views`).
//!
//! - [`ScreenEvents`]: server-sent events for a screen that shows a workflow.
//! - [`AgentEvents`]: messages and actions of agents.
//! - [`TaskChunks`] and [`TaskResult`]: the streamed chunks and the result of a task.
//!
//! - [`workflow_diagram`] and [`run_diagram`]: pictures of a workflow and of a run, with
//!   [`layout`].
//!
//! A view is computed from events alone. It starts nothing, stores nothing and reads no clock.
//! [`TaskRequest`] maps in the other direction: it turns a task that another program sends into the
//! request of a run.

mod agent_event;
mod graph_diagram;
mod process_request;
mod screen_event;
mod task_chunk;
mod task_request;
mod task_result;
mod task_start;

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use agentflow_core::time::Timestamp;
#[doc(inline)]
pub use agentflow_layout as layout;
use serde::{Serialize, Serializer};

pub use self::agent_event::{AgentEvent, AgentEvents, final_text};
pub use self::graph_diagram::{run_diagram, workflow_diagram};
pub use self::screen_event::{ScreenEvent, ScreenEvents};
pub use self::task_chunk::{TaskChunkKind, TaskChunks, TaskContent, TaskStreamChunk};
pub use self::task_request::{
    TaskAgentConfig, TaskExecution, TaskFramework, TaskRequest, TaskRequestError,
    TaskRequestMessage, TaskRole, TaskText, TaskTextPart, TaskUser,
};
pub use self::task_result::{TaskMessage, TaskResult, TaskStatus};
pub use self::task_start::{TaskAgent, TaskStart};

/// A timestamp that is displayed and serialized in RFC 3339 format, such as
/// `2026-01-01T00:00:00.000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rfc3339(pub Timestamp);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The last second that the format can represent: the end of the year 9999.
        const LAST: u64 = 253_402_300_799;
        let since = Duration::from_millis(self.0.as_millis()).min(Duration::from_secs(LAST));
        write!(f, "{}", humantime::format_rfc3339_millis(UNIX_EPOCH + since))
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
