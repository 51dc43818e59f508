//! `A2aPart`: a part of a message or of an artifact. It does not read files or fetch URLs.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::lenient;

/// A part of a message or of an artifact. It has exactly one content, with optional metadata.
///
/// ```
/// use agentflow::a2a::A2aPart;
///
/// let report = A2aPart::text("# May").media_type("text/markdown").filename("may.md");
/// assert_eq!(report.as_text(), Some("# May"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PartJson", into = "PartJson")]
#[non_exhaustive]
pub struct A2aPart {
    /// The content.
    pub content: A2aContent,
    /// Media type of the content, such as `image/png`.
    pub media_type: Option<String>,
    /// Name of the file.
    pub filename: Option<String>,
    /// Additional fields set by the sender.
    pub metadata: Option<Map<String, Value>>,
}

/// The content of a part.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum A2aContent {
    /// Text.
    Text(String),
    /// Bytes of a file.
    Raw(Vec<u8>),
    /// URL of a file.
    Url(String),
    /// A JSON value.
    Data(Value),
}

impl A2aPart {
    /// Creates a part without media type, file name or metadata.
    pub fn new(content: A2aContent) -> Self {
        Self { content, media_type: None, filename: None, metadata: None }
    }

    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(A2aContent::Text(text.into()))
    }

    /// Creates a part with a JSON value.
    pub fn data(value: impl Into<Value>) -> Self {
        Self::new(A2aContent::Data(value.into()))
    }

    /// Sets the media type.
    #[must_use]
    pub fn media_type(mut self, media_type: impl Into<String>) -> Self {
        self.media_type = Some(media_type.into());
        self
    }

    /// Sets the file name.
    #[must_use]
    pub fn filename(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into());
        self
    }

    /// Returns the text, or `None` if the part has another content.
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            A2aContent::Text(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(feature = "server")]
impl A2aContent {
    /// Decodes base64 text.
    pub(crate) fn from_base64(text: &str) -> Result<Self, String> {
        bytes(text).map(Self::Raw)
    }
}

/// Joins the text of all text parts, one per line.
pub(super) fn text_of(parts: &[A2aPart]) -> String {
    parts.iter().filter_map(A2aPart::as_text).collect::<Vec<_>>().join("\n")
}

/// Fields in which protocol versions before 1.0 name the type of a part.
const KINDS: [&str; 2] = ["kind", "type"];

/// JSON form of a part. The name of the field identifies the content type.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(
        default,
        deserialize_with = "lenient::present",
        skip_serializing_if = "Option::is_none"
    )]
    data: Option<Value>,
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    media_type: Option<String>,
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Map<String, Value>>,
    /// A file in the form of version 0.3. It is accepted and never written.
    #[serde(default, skip_serializing)]
    file: Option<FileJson>,
    /// Unknown fields.
    #[serde(flatten, skip_serializing)]
    others: Map<String, Value>,
}

/// A file in the form of version 0.3.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileJson {
    bytes: Option<String>,
    uri: Option<String>,
    #[serde(default, deserialize_with = "lenient::filled")]
    mime_type: Option<String>,
    #[serde(default, deserialize_with = "lenient::filled")]
    name: Option<String>,
}

impl TryFrom<PartJson> for A2aPart {
    type Error = String;

    fn try_from(part: PartJson) -> Result<Self, String> {
        let PartJson { text, raw, url, data, media_type, filename, metadata, file, mut others } =
            part;
        // Version 0.3: convert a `file` part to the 1.0 fields and read it again.
        if let Some(file) =
            file.filter(|_| text.is_none() && raw.is_none() && url.is_none() && data.is_none())
        {
            let (media_type, filename) = (media_type.or(file.mime_type), filename.or(file.name));
            let written = PartJson {
                text,
                raw: file.bytes,
                url: file.uri,
                data,
                media_type,
                filename,
                metadata,
                file: None,
                others,
            };
            return Self::try_from(written);
        }
        // Some servers write the unused fields of a part as nulls, so a null `data` next to another
        // content is ignored.
        let data =
            data.filter(|data| !data.is_null() || text.is_none() && raw.is_none() && url.is_none());
        let content = match (text, raw, url, data) {
            (Some(text), None, None, None) => A2aContent::Text(text),
            (None, Some(raw), None, None) => A2aContent::Raw(bytes(&raw)?),
            (None, None, Some(url), None) => A2aContent::Url(url),
            (None, None, None, Some(data)) => A2aContent::Data(data),
            // A part type of a later protocol revision is kept as data, so that one unknown part
            // does not make the whole message unreadable.
            (None, None, None, None) if others.keys().any(|name| !KINDS.contains(&&**name)) => {
                KINDS.iter().for_each(|name| drop(others.remove(*name)));
                A2aContent::Data(Value::Object(others))
            }
            _ => return Err("a part has exactly one of `text`, `raw`, `url` and `data`".to_owned()),
        };
        Ok(Self { content, media_type, filename, metadata })
    }
}

/// Decodes base64 in the standard and the URL-safe alphabet, with or without padding.
fn bytes(base64: &str) -> Result<Vec<u8>, String> {
    let plain = base64.trim_end_matches('=').replace('-', "+").replace('_', "/");
    STANDARD_NO_PAD.decode(plain).map_err(|error| format!("`raw` is not base64: {error}"))
}

impl From<A2aPart> for PartJson {
    fn from(part: A2aPart) -> Self {
        let A2aPart { content, media_type, filename, metadata } = part;
        let mut json = Self {
            text: None,
            raw: None,
            url: None,
            data: None,
            media_type,
            filename,
            metadata,
            file: None,
            others: Map::new(),
        };
        match content {
            A2aContent::Text(text) => json.text = Some(text),
            A2aContent::Raw(raw) => json.raw = Some(STANDARD.encode(raw)),
            A2aContent::Url(url) => json.url = Some(url),
            A2aContent::Data(data) => json.data = Some(data),
        }
        json
    }
}
