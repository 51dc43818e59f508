//! `A2aServerError`: why a server cannot be made. It says nothing of requests, whose errors their client reads.

use std::fmt;

use crate::error::{Error, with_causes};

/// Why a server of the Agent2Agent protocol cannot serve what it is to offer.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum A2aServerError {
    /// The runtime has no store, so no task could be found again.
    #[error(
        "the A2A server cannot serve a runtime without a store, since a task is a run that is kept; give the runtime one with `RuntimeBuilder::store`"
    )]
    NoStore,
    /// The store keeps no state, so nobody could be notified after a restart.
    #[error(
        "the A2A server cannot send push notifications with a store that keeps no state; give the runtime another one, or leave out `push_notifications`"
    )]
    NoState,
    /// It has a card for clients that are known, and knows nobody.
    #[error("the A2A server has an extended card and knows no client that could see it; say with `auth` who is known")]
    NobodyKnown,
    /// Neither an agent nor a workflow is named.
    #[error("the A2A server offers nothing; name agents with `agents`, or workflows with `workflows`")]
    Empty,
    /// Something that it is to offer is not there.
    #[error("the A2A server cannot offer this: {0}")]
    Offer(#[source] Error),
    /// No client could use what was named: its input has no schema, its name cannot be part of an address, or another one
    /// has it, too.
    #[error("the A2A server cannot offer the {kind} `{name}`: {problem}")]
    #[non_exhaustive]
    Unusable {
        /// What it is: `agent` or `workflow`.
        kind: &'static str,
        /// The name.
        name: String,
        /// Why, and what to do.
        problem: String,
    },
    /// The address that clients are to use is not one.
    #[error("`{url}` is not an address of the A2A server: {problem}")]
    #[non_exhaustive]
    Address {
        /// The text.
        url: String,
        /// Why, and what to do.
        problem: String,
    },
}

impl fmt::Debug for A2aServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}
