//! A server's prompts in the form for programs: their descriptions, and the messages of a fetched
//! prompt.

use rmcp::model::{ContentBlock, Prompt, PromptMessage, ResourceContents, Role as PromptRole};
use serde::Serialize;

use super::mcp_answer::media;
use super::mcp_resource::{MOST_DESCRIPTION, MOST_NAME, fits, in_order, shortened};
use agentflow_core::message::{Message, Part, Role};

/// Maximum number of messages of one prompt.
const MOST_MESSAGES: usize = 1000;
/// Maximum number of arguments of one prompt.
const MOST_ARGUMENTS: usize = 100;

/// A conversation starter offered by a server. Listed by
/// [`McpClient::prompts`](super::McpClient::prompts).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpPrompt {
    /// Name to pass to [`McpClient::prompt`](super::McpClient::prompt).
    pub name: String,
    /// Display name, if the server provides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description, if the server provides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Arguments, in the server's order.
    pub arguments: Vec<McpPromptArgument>,
}

/// An argument of a prompt. Its value is a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpPromptArgument {
    /// Name of the argument.
    pub name: String,
    /// Description, if the server provides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `true` if the prompt cannot be fetched without this argument.
    pub required: bool,
}

impl McpPrompt {
    /// Converts a list. Leaves out prompts with unusable names, sorts by name and removes
    /// duplicates.
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
                    description: argument
                        .description
                        .map(|description| shortened(description, MOST_DESCRIPTION)),
                    required: argument.required == Some(true),
                })
                .collect(),
        });
        in_order(prompts.collect(), |prompt| &prompt.name)
    }
}

/// Converts the messages of a prompt. The text of an embedded resource becomes a text part, its
/// bytes become a file, and a link becomes text with its address.
///
/// # Errors
/// Fails if the prompt has too many messages or content of an unknown type.
pub(super) fn messages(of: Vec<PromptMessage>) -> Result<Vec<Message>, String> {
    if of.len() > MOST_MESSAGES {
        return Err(format!("it has {} messages, and {MOST_MESSAGES} is the most", of.len()));
    }
    of.into_iter()
        .map(|PromptMessage { role, content, .. }| {
            Ok(Message::new(convert_role(&role), [part(content)?]))
        })
        .collect()
}

fn convert_role(role: &PromptRole) -> Role {
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
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => Part::Media(
                media(mime_type.as_deref().unwrap_or("application/octet-stream"), &blob).name(uri),
            ),
            _ => return Err(unknown()),
        },
        ContentBlock::ResourceLink(of) => Part::Text { text: format!("[{}: {}]", of.name, of.uri) },
        _ => return Err(unknown()),
    })
}
