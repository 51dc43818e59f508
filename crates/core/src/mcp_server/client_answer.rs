//! What a run asks of the program at the other end, and not of its person: `ClientReply`, a reply of the model that the client
//! has, and `ClientFolders`, the folders that it works in. A question is one of these by the schema of its answer.
//! It asks nobody; `client_requests.rs` has what is sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::runtime::OpenQuestion;

/// The keyword of a schema that says by which request of the protocol a client is asked.
const ASKS: &str = "x-mcp-asks";
const MODEL: &str = "sampling/createMessage";
const FOLDERS: &str = "roots/list";

/// A reply of the model that a client of an [`McpServer`](super::McpServer) has: a question with this answer is put to that
/// model, as `sampling/createMessage`, where the client has one to ask. The question is the prompt, with what it is about after
/// it; the reply has at most 4096 tokens. Elsewhere somebody answers with JSON: `{"text": "..."}`.
///
/// The reply is the client's word: it may be any text. Revision 2026-07-28 of the protocol deprecates such requests; a model of
/// the runtime's own needs no client.
///
/// ```
/// use agentflow::mcp_server::ClientReply;
/// use agentflow::prelude::*;
/// # use agentflow::store::MemoryStore;
///
/// /// Has the client's model sum up a text.
/// #[workflow]
/// async fn sum_up(text: String) -> Result<String> {
///     let reply = gate!("Sum this up in a sentence: {text}", text, answer = ClientReply).await?;
///     Ok(reply.text)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// # let run = runtime.start(sum_up::workflow(), "It rained.".to_owned()).await?;
/// # let question = run.asked().await?.expect("it asks");
/// # run.answer(&question.id, &serde_json::json!({"text": "Rain."}), "ada").await?;
/// # assert_eq!(run.result().await?, "Rain.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-mcp-asks" = "sampling/createMessage"))]
#[non_exhaustive]
pub struct ClientReply {
    /// What the model says.
    pub text: String,
    /// Which model it is, as the client calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The folders in which a client of an [`McpServer`](super::McpServer) works: a question with this answer is put to the client,
/// as `roots/list`, where it has folders. Elsewhere somebody answers with JSON: `{"folders": [{"uri": "file:///home/ada"}]}`.
///
/// They are the client's word: never open a file because it is in one of them. Revision 2026-07-28 of the protocol deprecates
/// such requests.
///
/// ```
/// use agentflow::mcp_server::ClientFolders;
/// use agentflow::prelude::*;
///
/// /// Says where the client works.
/// #[workflow]
/// async fn where_is_it() -> Result<Vec<String>> {
///     let at = gate!("In which folders do you work?", answer = ClientFolders).await?;
///     Ok(at.folders.into_iter().map(|folder| folder.uri).collect())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-mcp-asks" = "roots/list"))]
#[non_exhaustive]
pub struct ClientFolders {
    /// The folders, in the client's order.
    pub folders: Vec<ClientFolder>,
}

/// One of [`ClientFolders`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ClientFolder {
    /// Its address, mostly a `file://` one.
    pub uri: String,
    /// What the client calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Who answers a question at the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Person,
    Model,
    Folders,
}

impl Asked {
    pub(super) fn of(question: &OpenQuestion) -> Self {
        let schema: Value = question.answer.decode().unwrap_or_default();
        match schema[ASKS].as_str() {
            Some(MODEL) => Self::Model,
            Some(FOLDERS) => Self::Folders,
            _ => Self::Person,
        }
    }
}
