//! The client: agents of other programs, spoken with over HTTP, and agents of tests in memory. It serves nothing.

mod a2a_client;
mod a2a_error;
mod asked;
mod card_choice;
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
pub(crate) use self::endpoint_tool::endpoint_tool;
pub use self::operation::A2aTaskQuery;
pub use self::relay_model::A2aRelay;
pub use self::update_stream::A2aStream;
