//! The Agent2Agent protocol, version 1.0: its data, and agents of other programs as tools of this one, by names such as
//! `a2a.researcher`.
#![doc = include_str!("../docs/a2a.md")]

mod a2a_error_code;
mod a2a_message;
mod a2a_part;
mod a2a_task;
mod a2a_update;
mod agent_card;
#[cfg(feature = "a2a-client")]
mod client;
mod lenient;
mod push_config;

pub use self::a2a_error_code::A2aErrorCode;
pub use self::a2a_message::{A2aMessage, A2aRole};
pub use self::a2a_part::{A2aContent, A2aPart};
pub use self::a2a_task::{A2aArtifact, A2aTask, A2aTaskState, A2aTaskStatus, A2aTasks};
pub use self::a2a_update::{A2aAnswer, A2aArtifactUpdate, A2aStatusUpdate, A2aUpdate};
pub use self::agent_card::{A2aCapabilities, A2aCard, A2aExtension, A2aInterface, A2aProvider, A2aSkill};
#[cfg(feature = "a2a-client")]
pub(crate) use self::client::endpoint_tool;
#[cfg(feature = "a2a-client")]
pub use self::client::{A2aClient, A2aClientBuilder, A2aError, A2aRelay, A2aStream, A2aTaskQuery};
pub use self::push_config::{A2aPushAuthentication, A2aPushConfig, A2aPushConfigs};

/// The version of the protocol that is spoken.
pub const A2A_VERSION: &str = "1.0";

/// The header that says the version.
#[cfg(any(feature = "a2a-client", feature = "a2a-server"))]
pub(crate) const VERSION_HEADER: &str = "a2a-version";
