//! A server's resources in the form for programs: their descriptions, and the contents of a
//! resource that was read.

use agentflow_schema::text::head;
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;

/// Maximum number of bytes of an address.
pub(super) const MOST_URI: usize = 8 << 10;
/// Maximum number of bytes of a name or a title.
pub(super) const MOST_NAME: usize = 1 << 10;
/// Maximum number of bytes of a description.
pub(super) const MOST_DESCRIPTION: usize = 16 << 10;
/// Maximum number of contents of one resource, such as the files of a folder.
const MOST_CONTENTS: usize = 1000;

/// Base64 with optional padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A readable resource of a server. Listed by
/// [`McpClient::resources`](super::McpClient::resources).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpResource {
    /// Address to pass to [`McpClient::resource`](super::McpClient::resource).
    pub uri: String,
    /// Name of the resource.
    pub name: String,
    /// Display name, if the server provides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description, if the server provides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// IANA media type, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Size in bytes, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// A family of resources whose addresses follow one template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpResourceTemplate {
    /// Address template of RFC 6570, such as `note:///{name}`.
    pub uri_template: String,
    /// Name of the resources.
    pub name: String,
    /// Display name, if the server provides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description, if the server provides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// IANA media type of the resources, if all have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// Content of a resource: text or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpContent {
    /// Text.
    Text {
        /// Address of the content. For a folder, it is the address of one of its files.
        uri: String,
        /// IANA media type, if the server provides it.
        mime_type: Option<String>,
        /// The text.
        text: String,
    },
    /// Bytes, such as an image.
    Bytes {
        /// Address of the content. For a folder, it is the address of one of its files.
        uri: String,
        /// IANA media type, if the server provides it.
        mime_type: Option<String>,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

impl McpResource {
    /// Converts a list. Leaves out resources with unusable addresses, sorts by address and removes
    /// duplicates.
    pub(super) fn all(listed: Vec<Resource>) -> Vec<Self> {
        let listed = listed.into_iter().filter(|of| fits(&of.uri, MOST_URI));
        let resources = listed.map(|of| Self {
            uri: of.uri,
            name: shortened(of.name, MOST_NAME),
            title: of.title.map(|title| shortened(title, MOST_NAME)),
            description: of.description.map(|description| shortened(description, MOST_DESCRIPTION)),
            mime_type: of.mime_type.map(|mime_type| shortened(mime_type, MOST_NAME)),
            size: of.size,
        });
        in_order(resources.collect(), |resource| &resource.uri)
    }
}

impl McpResourceTemplate {
    /// Converts a list of templates with the same rules as [`McpResource::all`].
    pub(super) fn all(listed: Vec<ResourceTemplate>) -> Vec<Self> {
        let listed = listed.into_iter().filter(|of| fits(&of.uri_template, MOST_URI));
        let templates = listed.map(|of| Self {
            uri_template: of.uri_template,
            name: shortened(of.name, MOST_NAME),
            title: of.title.map(|title| shortened(title, MOST_NAME)),
            description: of.description.map(|description| shortened(description, MOST_DESCRIPTION)),
            mime_type: of.mime_type.map(|mime_type| shortened(mime_type, MOST_NAME)),
        });
        in_order(templates.collect(), |template| &template.uri_template)
    }
}

impl McpContent {
    /// Returns the text, or `None` for bytes.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Bytes { .. } => None,
        }
    }

    /// Converts the contents of a response.
    ///
    /// # Errors
    /// Fails if the response has too many contents, invalid base64 or content of an unknown type.
    pub(super) fn all(contents: Vec<ResourceContents>) -> Result<Vec<Self>, String> {
        if contents.len() > MOST_CONTENTS {
            return Err(format!(
                "it has {} contents, and {MOST_CONTENTS} is the most",
                contents.len()
            ));
        }
        contents.into_iter().map(Self::from_contents).collect()
    }

    fn from_contents(contents: ResourceContents) -> Result<Self, String> {
        match contents {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                Ok(Self::Text { uri, mime_type, text })
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => match BASE64
                .decode(&blob)
            {
                Ok(bytes) => Ok(Self::Bytes { uri, mime_type, bytes }),
                Err(error) => {
                    Err(format!("the bytes of `{}` are not base64: {error}", head(&uri, MOST_NAME)))
                }
            },
            _ => Err("it has contents of a kind that this program does not know".to_owned()),
        }
    }
}

/// Returns `true` if an entry with this name or address can be requested. Logs a warning otherwise.
pub(super) fn fits(text: &str, most: usize) -> bool {
    let fits = !text.is_empty() && text.len() <= most && !text.chars().any(char::is_control);
    if !fits {
        tracing::warn!(
            text = head(text, 100),
            "an entry in a list of an MCP server cannot be asked for, and is left out"
        );
    }
    fits
}

pub(super) fn shortened(text: String, most: usize) -> String {
    match text.len() > most {
        true => head(&text, most).to_owned(),
        false => text,
    }
}

/// Sorts entries by key. Of several entries with the same key, only the first remains.
pub(super) fn in_order<T>(mut entries: Vec<T>, key: impl Fn(&T) -> &String) -> Vec<T> {
    entries.sort_by(|one, other| key(one).cmp(key(other)));
    entries.dedup_by(|later, first| key(later) == key(first));
    entries
}
