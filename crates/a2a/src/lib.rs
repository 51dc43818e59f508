//! The Agent2Agent protocol for agentflow: remote agents as tools ([`a2a`]), and a runtime as a
//! server ([`a2a_server`]).
//!
//! Programs depend on the crate `agentflow-sdk` and enable its features `a2a-client`, `a2a-server` and `a2a-push`. It re-exports
//! these modules.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod a2a;
#[cfg(feature = "server")]
pub mod a2a_server;
