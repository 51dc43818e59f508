//! A server's resources as a program sees them: what there is, and the contents of one. It asks nobody.

use agentflow_schema::text::head;
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;

/// The most bytes of an address.
pub(super) const MOST_URI: usize = 8 << 10;
/// The most bytes of a name or a title.
pub(super) const MOST_NAME: usize = 1 << 10;
/// The most bytes of a description.
pub(super) const MOST_DESCRIPTION: usize = 16 << 10;
/// The most contents of one resource, such as the files of a folder.
const MOST_CONTENTS: usize = 1000;

/// Base64, with or without what fills its last group.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Something that a server can give to read, as [`McpClient::resources`](super::McpClient::resources) lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpResource {
    /// The address that [`McpClient::resource`](super::McpClient::resource) reads.
    pub uri: String,
    /// What it is called.
    pub name: String,
    /// What it is called for people, if the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is, if the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its IANA media type, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// How many bytes it has, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// Many resources of a server whose addresses are made in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpResourceTemplate {
    /// The address with places to fill in, as RFC 6570 has them: `note:///{name}`.
    pub uri_template: String,
    /// What they are called.
    pub name: String,
    /// What they are called for people, if the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What they are, if the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The IANA media type of all of them, if they have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// What a resource contains: a text or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpContent {
    /// A text.
    Text {
        /// The address, which of a folder is that of a file in it.
        uri: String,
        /// The IANA media type, if the server says it.
        mime_type: Option<String>,
        /// The text itself.
        text: String,
    },
    /// Bytes, such as a picture.
    Bytes {
        /// The address, which of a folder is that of a file in it.
        uri: String,
        /// The IANA media type, if the server says it.
        mime_type: Option<String>,
        /// The bytes themselves.
        bytes: Vec<u8>,
    },
}

impl McpResource {
    /// Those that can be read, ordered by address, each address once.
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
    /// The same of templates.
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
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Bytes { .. } => None,
        }
    }

    /// All contents of an answer.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub(super) fn all(contents: Vec<ResourceContents>) -> Result<Vec<Self>, String> {
        if contents.len() > MOST_CONTENTS {
            return Err(format!("it has {} contents, and {MOST_CONTENTS} is the most", contents.len()));
        }
        contents.into_iter().map(Self::of).collect()
    }

    fn of(contents: ResourceContents) -> Result<Self, String> {
        match contents {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                Ok(Self::Text { uri, mime_type, text })
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => match BASE64.decode(&blob) {
                Ok(bytes) => Ok(Self::Bytes { uri, mime_type, bytes }),
                Err(error) => Err(format!("the bytes of `{}` are not base64: {error}", head(&uri, MOST_NAME))),
            },
            _ => Err("it has contents of a kind that this program does not know".to_owned()),
        }
    }
}

/// Whether something can be asked for by this text.
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

/// By key, of several with one key the first.
pub(super) fn in_order<T>(mut entries: Vec<T>, key: impl Fn(&T) -> &String) -> Vec<T> {
    entries.sort_by(|one, other| key(one).cmp(key(other)));
    entries.dedup_by(|later, first| key(later) == key(first));
    entries
}
