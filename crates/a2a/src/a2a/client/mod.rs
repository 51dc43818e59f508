//! Client for remote A2A agents, over HTTP or, in tests, in memory.
//!
//! - [`A2aClient`] is the public client, and a toolset with one tool (`remote_tool.rs`).
//! - `Peer` (`peer.rs`) fetches the card and exchanges one request, within limits of time and size.
//!   `Operation` describes a request for both protocol bindings, and `Link` transports it.
//! - `asked.rs` sends a message and follows its task by a stream (`update_stream.rs`) or by
//!   polling.
//! - `remote_call.rs` is a tool call: it asks people the questions of the agent and sends the
//!   answers. `task_question.rs` translates questions and answers of several frameworks.
//! - [`A2aRelay`] is a model that forwards messages to the agent.

mod a2a_client;
mod a2a_error;
mod asked;
mod card_choice;
mod endpoint_guard;
mod endpoint_tool;
mod langgraph_thread;
mod memory_link;
mod operation;
mod peer;
mod relay_model;
mod remote_call;
mod remote_tool;
mod task_question;
mod update_stream;

pub use self::a2a_client::{A2aClient, A2aClientBuilder};
pub use self::a2a_error::A2aError;
pub use self::endpoint_guard::A2aRuntime;
pub use self::operation::A2aTaskQuery;
pub use self::relay_model::A2aRelay;
pub use self::update_stream::A2aStream;
