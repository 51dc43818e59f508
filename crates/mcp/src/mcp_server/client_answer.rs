//! Answer types for questions that a run puts to the client program instead of its person:
//! `ClientReply` for a reply of the client's model, and `ClientFolders` for its working folders.
//! The answer schema of a question selects the request. `client_requests.rs` creates the requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use agentflow_core::runtime::OpenQuestion;

/// Schema keyword with the protocol method for this question.
const ASKS: &str = "x-mcp-asks";
const MODEL: &str = "sampling/createMessage";
const FOLDERS: &str = "roots/list";

/// A reply of the model of a client of an [`McpServer`](super::McpServer). A question with this
/// answer type is sent to the client's model, as the request `sampling/createMessage`, if the
/// client has one. The prompt is the question, followed by the value that it is about. The reply
/// has at most 4096 tokens. In other interfaces, a person answers with JSON: `{"text": "..."}`.
///
/// The reply comes from the client and may be any text. Revision 2026-07-28 of the protocol
/// deprecates such requests. A model that is configured in the runtime needs no client.
///
/// ```
/// use agentflow::mcp_server::ClientReply;
/// use agentflow::prelude::*;
/// # use agentflow::store::MemoryStore;
///
/// /// Lets the client's model summarize a text.
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
    /// Text of the reply.
    pub text: String,
    /// Name of the model, as reported by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The working folders of a client of an [`McpServer`](super::McpServer). A question with this
/// answer type is sent to the client, as the request `roots/list`, if the client has folders. In
/// other interfaces, a person answers with JSON: `{"folders": [{"uri": "file:///home/ada"}]}`.
///
/// The folders are reported by the client. Never open a file only because it is in one of them.
/// Revision 2026-07-28 of the protocol deprecates such requests.
///
/// ```
/// use agentflow::mcp_server::ClientFolders;
/// use agentflow::prelude::*;
///
/// /// Returns the folders in which the client works.
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

/// A folder of [`ClientFolders`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ClientFolder {
    /// Address of the folder, usually with the scheme `file`.
    pub uri: String,
    /// Name of the folder, as reported by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Recipient of a question at the client.
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
