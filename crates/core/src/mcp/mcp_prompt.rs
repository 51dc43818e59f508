//! A server's prompts as a program sees them: what there is, and one as messages of a conversation. It asks nobody.

use rmcp::model::{ContentBlock, Prompt, PromptMessage, ResourceContents, Role as PromptRole};
use serde::Serialize;

use super::mcp_answer::media;
use super::mcp_resource::{MOST_DESCRIPTION, MOST_NAME, fits, in_order, shortened};
use crate::message::{Message, Part, Role};

/// The most messages of one prompt.
const MOST_MESSAGES: usize = 1000;
/// The most arguments of one prompt.
const MOST_ARGUMENTS: usize = 100;

/// A conversation that a server can begin, as [`McpClient::prompts`](super::McpClient::prompts) lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpPrompt {
    /// The name that [`McpClient::prompt`](super::McpClient::prompt) asks for.
    pub name: String,
    /// What it is called for people, if the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for, if the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes, in the server's order.
    pub arguments: Vec<McpPromptArgument>,
}

/// One argument of a prompt; its value is a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpPromptArgument {
    /// The name.
    pub name: String,
    /// What it is, if the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the prompt cannot do without it.
    pub required: bool,
}

impl McpPrompt {
    /// Those that can be asked for, ordered by name, each name once.
    pub(super) fn all(listed: Vec<Prompt>) -> Vec<Self> {
        let listed = listed.into_iter().filter(|of| fits(&of.name, MOST_NAME));
        let prompts = listed.map(|of| Self {
            name: of.name,
            title: of.title.map(|title| shortened(title, MOST_NAME)),
            description: of.description.map(|description| shortened(description, MOST_DESCRIPTION)),
            arguments: of
                .arguments
                .unwrap_or_default()
                .into_iter()
                .take(MOST_ARGUMENTS)
                .map(|argument| McpPromptArgument {
                    name: shortened(argument.name, MOST_NAME),
                    description: argument.description.map(|description| shortened(description, MOST_DESCRIPTION)),
                    required: argument.required == Some(true),
                })
                .collect(),
        });
        in_order(prompts.collect(), |prompt| &prompt.name)
    }
}

/// The messages of a prompt. The text of a resource is a text, its bytes are a file, and a link is its address.
///
/// # Errors
/// What is wrong with the answer.
pub(super) fn messages(of: Vec<PromptMessage>) -> Result<Vec<Message>, String> {
    if of.len() > MOST_MESSAGES {
        return Err(format!("it has {} messages, and {MOST_MESSAGES} is the most", of.len()));
    }
    of.into_iter()
        .map(|PromptMessage { role, content, .. }| Ok(Message::new(of_role(&role), [part(content)?])))
        .collect()
}

fn of_role(role: &PromptRole) -> Role {
    match role {
        PromptRole::User => Role::User,
        PromptRole::Assistant => Role::Assistant,
    }
}

fn part(content: ContentBlock) -> Result<Part, String> {
    let unknown = || "it has contents of a kind that this program does not know".to_owned();
    Ok(match content {
        ContentBlock::Text(of) => Part::Text { text: of.text },
        ContentBlock::Image(of) => Part::Media(media(&of.mime_type, &of.data)),
        ContentBlock::Audio(of) => Part::Media(media(&of.mime_type, &of.data)),
        ContentBlock::Resource(of) => match of.resource {
            ResourceContents::TextResourceContents { text, .. } => Part::Text { text },
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                Part::Media(media(mime_type.as_deref().unwrap_or("application/octet-stream"), &blob).name(uri))
            }
            _ => return Err(unknown()),
        },
        ContentBlock::ResourceLink(of) => Part::Text { text: format!("[{}: {}]", of.name, of.uri) },
        _ => return Err(unknown()),
    })
}
