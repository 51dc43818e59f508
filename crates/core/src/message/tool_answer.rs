//! Content of a tool's answer in addition to its JSON: text for the model, files and links.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{Media, ToolResult};

/// Content of a tool's answer in addition to its JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ToolContent {
    /// Text that the model reads instead of the JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Files and links, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ToolPart>,
}

impl ToolContent {
    /// Maximum total size of the files and links of an answer in bytes, in encoded form: 16 MiB.
    pub const MAX_BYTES: usize = 16 << 20;

    /// Returns the size of the text, files and links in bytes.
    pub(crate) fn size(beside: Option<&Self>) -> u64 {
        let bytes =
            beside.map_or(0, |of| of.text.as_ref().map_or(0, String::len) + of.size_of_parts());
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns the size of the files and links in bytes, in encoded form.
    pub(crate) fn size_of_parts(&self) -> usize {
        self.parts
            .iter()
            .map(|part| match part {
                ToolPart::Media(file) => file.url.len() + file.mime_type.len(),
                ToolPart::Link(link) => link.uri.len() + link.name.as_ref().map_or(0, String::len),
            })
            .sum()
    }
}

/// A file or a link in a tool's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolPart {
    /// An image, a document or another file. It is sent as a file if the provider's wire format
    /// supports that in a tool result, otherwise as a line of text that describes it.
    Media(Media),
    /// A link to content elsewhere. The model gets its address as text.
    Link(ResourceLink),
}

/// A link to content at an address, such as a resource of a server.
///
/// ```
/// use agentflow::message::ResourceLink;
///
/// let link = ResourceLink::new("file:///reports/may.pdf").name("may.pdf").mime_type("application/pdf");
/// assert_eq!(link.uri, "file:///reports/may.pdf");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceLink {
    /// The address.
    pub uri: String,
    /// Name of the content, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// IANA media type of the content, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

impl ResourceLink {
    /// Creates a link without a name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None, mime_type: None }
    }

    /// Sets the name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the IANA media type of the content.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

impl Media {
    /// Creates a file from its IANA media type and its content, which is stored as a `data:` URL.
    pub fn of_bytes(mime_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        let mime_type = mime_type.into();
        let url = format!("data:{mime_type};base64,{}", STANDARD.encode(bytes));
        Self::new(mime_type, url)
    }
}

impl ToolResult {
    /// Returns the text that the model reads: the text that the tool provides for it, otherwise the
    /// JSON. A JSON string is returned without its quotes.
    pub fn text(&self) -> Cow<'_, str> {
        if let Some(content) = &self.content {
            match &content.text {
                // An answer that consists of files or links only has the JSON `null`.
                Some(text) => return Cow::Borrowed(text),
                None if self.output == "null" => return Cow::Borrowed(""),
                None => {}
            }
        }
        if self.status.is_success()
            && self.output.starts_with('"')
            && let Ok(text) = serde_json::from_str::<String>(&self.output)
        {
            return Cow::Owned(text);
        }
        Cow::Borrowed(&self.output)
    }

    /// Returns the size of the answer in bytes: its JSON or error text, plus the text for the
    /// model, files and links. For an answer that was saved as an artifact, this is the size of the
    /// whole answer.
    #[doc(alias = "output_bytes")]
    pub fn output_size(&self) -> u64 {
        let json = self
            .whole_bytes
            .unwrap_or_else(|| u64::try_from(self.output.len()).unwrap_or(u64::MAX));
        json.saturating_add(ToolContent::size(self.content.as_deref()))
    }

    /// Returns the files of the answer.
    pub fn media(&self) -> impl Iterator<Item = &Media> {
        self.parts().iter().filter_map(|part| match part {
            ToolPart::Media(file) => Some(file),
            ToolPart::Link(_) => None,
        })
    }

    /// Returns the files and links of the answer.
    pub fn parts(&self) -> &[ToolPart] {
        self.content.as_ref().map_or(&[], |content| &content.parts)
    }

    /// Returns the text, with an additional line for each link and for each file that the adapter
    /// cannot send. `is_sent` returns `true` for files that it sends separately.
    pub fn text_beside(&self, is_sent: impl Fn(&Media) -> bool) -> Cow<'_, str> {
        let text = self.text();
        let lines = self.parts().iter().filter_map(|part| match part {
            ToolPart::Media(file) if is_sent(file) => None,
            ToolPart::Media(Media { mime_type, url, name }) => {
                let name = name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
                let at =
                    if url.starts_with("data:") { String::new() } else { format!(" at {url}") };
                Some(format!("[{mime_type}{name}{at} left out]"))
            }
            ToolPart::Link(ResourceLink { uri, name, mime_type }) => {
                let name = name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
                let of = mime_type
                    .as_ref()
                    .map(|mime_type| format!(" ({mime_type})"))
                    .unwrap_or_default();
                Some(format!("[{name}{uri}{of}]"))
            }
        });
        let lines: Vec<String> = lines.collect();
        match lines.is_empty() {
            true => text,
            false if text.is_empty() => Cow::Owned(lines.join("\n")),
            false => Cow::Owned(format!("{text}\n{}", lines.join("\n"))),
        }
    }
}
