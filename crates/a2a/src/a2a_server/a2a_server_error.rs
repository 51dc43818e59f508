//! `A2aServerError`: errors in the configuration of a server.

use std::fmt;

use agentflow_core::__private::extension::with_causes;
use agentflow_core::error::Error;

/// An error in the configuration of an A2A server. Errors of single requests are sent to the
/// client.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum A2aServerError {
    /// The runtime has no store. Tasks could not be found again.
    #[error(
        "the A2A server cannot serve a runtime without a store, since a task is a run that is kept; give the runtime one with `RuntimeBuilder::store`"
    )]
    NoStore,
    /// The store does not support state. Push configurations would be lost by a restart.
    #[error(
        "the A2A server cannot send push notifications with a store that keeps no state; give the runtime another one, or leave out `push_notifications`"
    )]
    NoState,
    /// The server has an extended card but no authentication, so no client could request it.
    #[error(
        "the A2A server has an extended card, and no client could read it; authenticate clients with `authenticate`"
    )]
    NobodyKnown,
    /// No agent and no workflow is offered.
    #[error(
        "the A2A server offers nothing; name agents with `agents`, or workflows with `workflows`"
    )]
    Empty,
    /// An agent or a workflow to offer does not exist, or cannot be built.
    #[error("the A2A server cannot offer this: {0}")]
    Offer(#[source] Error),
    /// An agent or a workflow cannot be offered: its input has no schema, its name cannot be part
    /// of a URL, or the name is not unique.
    #[error("the A2A server cannot offer the {kind} `{name}`: {problem}")]
    #[non_exhaustive]
    Unusable {
        /// `agent` or `workflow`.
        kind: &'static str,
        /// Name of the agent or workflow.
        name: String,
        /// Description of the problem and its solution.
        problem: String,
    },
    /// The public URL of the server is invalid.
    #[error("`{url}` is not an address of the A2A server: {problem}")]
    #[non_exhaustive]
    Address {
        /// The given URL.
        url: String,
        /// Description of the problem and its solution.
        problem: String,
    },
}

impl fmt::Debug for A2aServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}
