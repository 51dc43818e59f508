//! The Agent2Agent (A2A) protocol, version 1.0: its data types, and the client.
//!
//! - [`A2aCard`], [`A2aMessage`], [`A2aPart`], [`A2aTask`], [`A2aUpdate`] and the push
//!   configurations are the JSON documents of the protocol. The server module `a2a_server` uses
//!   them, too.
//! - `A2aClient` (feature `a2a-client`) fetches the card of a remote agent, sends messages and
//!   follows tasks. It also is a toolset: the agent `researcher` becomes the tool `a2a.researcher`.
//! - `A2aRelay` is a model that forwards the user's messages to a remote agent.
#![doc = include_str!("../docs/a2a.md")]

mod a2a_error_code;
mod a2a_message;
mod a2a_part;
mod a2a_task;
mod a2a_update;
mod agent_card;
#[cfg(any(feature = "client", feature = "server"))]
mod approval_text;
#[cfg(feature = "client")]
mod client;
mod lenient;
mod push_config;

pub use self::a2a_error_code::A2aErrorCode;
pub use self::a2a_message::{A2aMessage, A2aRole};
pub use self::a2a_part::{A2aContent, A2aPart};
pub use self::a2a_task::{A2aArtifact, A2aTask, A2aTaskState, A2aTaskStatus, A2aTasks};
pub use self::a2a_update::{A2aAnswer, A2aArtifactUpdate, A2aStatusUpdate, A2aUpdate};
pub use self::agent_card::{
    A2aCapabilities, A2aCard, A2aExtension, A2aInterface, A2aProvider, A2aSkill,
};
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) use self::approval_text::approval_from_text;
#[cfg(feature = "client")]
pub use self::client::{
    A2aClient, A2aClientBuilder, A2aError, A2aRelay, A2aRuntime, A2aStream, A2aTaskQuery,
};
pub use self::push_config::{A2aPushAuthentication, A2aPushConfig, A2aPushConfigs};

/// Supported version of the protocol.
pub const A2A_VERSION: &str = "1.0";

#[cfg(any(feature = "client", feature = "server"))]
/// Request header with the version of the protocol.
pub(crate) const VERSION_HEADER: &str = "a2a-version";
