//! What the answer of a server's tool is here: JSON for programs, a text, files and links for the model. It asks nothing.

use agentflow_schema::schema_check::SchemaCheck;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::message::{Media, ResourceLink};
use crate::tool::{ToolError, ToolOutput};

/// Text in place of a block of a later revision of the protocol.
const UNKNOWN: &str = "[something that this program does not know was left out]";

/// The answer as a tool's: the structured value where there is one, else the text. `schema` is what the server says of the
/// structured value.
pub(super) fn output(result: CallToolResult, schema: Option<&SchemaCheck>) -> Result<ToolOutput, ToolError> {
    let CallToolResult { content, structured_content, is_error, .. } = result;
    let mut text = Vec::new();
    let (mut files, mut links) = (Vec::new(), Vec::new());
    let unknown = || UNKNOWN.to_owned();
    for block in content {
        match block {
            ContentBlock::Text(of) => text.push(of.text),
            ContentBlock::Image(of) => files.push(media(&of.mime_type, &of.data)),
            ContentBlock::Audio(of) => files.push(media(&of.mime_type, &of.data)),
            ContentBlock::Resource(of) => match of.resource {
                ResourceContents::TextResourceContents { text: of, .. } => text.push(of),
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    files.push(media(mime_type.as_deref().unwrap_or("application/octet-stream"), &blob).name(uri));
                }
                _ => text.push(unknown()),
            },
            ContentBlock::ResourceLink(of) => {
                let link = ResourceLink::new(of.uri).name(of.name);
                links.push(of.mime_type.into_iter().fold(link, ResourceLink::mime_type));
            }
            _ => text.push(unknown()),
        }
    }
    let text = text.join("\n");
    if is_error == Some(true) {
        let said = if text.is_empty() { structured_content.map(|value| value.to_string()) } else { Some(text) };
        return Err(ToolError::new(said.unwrap_or_else(|| "the tool failed and did not say why".to_owned())));
    }
    let output = match structured_content {
        Some(value) => {
            if let Some(Err(problem)) = schema.map(|schema| schema.check(&value)) {
                let problem = format!("the tool ran, but its answer is not one that it declares: {problem}");
                return Err(ToolError::new(problem));
            }
            let output = ToolOutput::json(&value)?;
            // Mostly the text is the same value once more.
            match text.is_empty() || serde_json::from_str::<Value>(&text).is_ok_and(|said| said == value) {
                true => output,
                false => output.with_text(text),
            }
        }
        None if schema.is_some() => {
            return Err(ToolError::new("the tool ran, but its answer has no structured value, which it declares"));
        }
        None if text.is_empty() && (!files.is_empty() || !links.is_empty()) => ToolOutput::json(&Value::Null)?,
        None => ToolOutput::text(text),
    };
    let output = files.into_iter().fold(output, ToolOutput::with_media);
    Ok(links.into_iter().fold(output, ToolOutput::with_link))
}

/// Reads the result of a tool that has blocks of an unknown kind: a text takes the place of each. Returns `None` if it is
/// not the result of a tool.
pub(super) fn with_known_blocks(mut result: Value) -> Option<CallToolResult> {
    for block in result.get_mut("content")?.as_array_mut()? {
        if serde_json::from_value::<ContentBlock>(block.clone()).is_err() {
            *block = serde_json::json!({"type": "text", "text": UNKNOWN});
        }
    }
    serde_json::from_value(result).ok()
}

/// A file whose content is base64.
pub(super) fn media(mime_type: &str, base64: &str) -> Media {
    Media::new(mime_type, format!("data:{mime_type};base64,{base64}"))
}
