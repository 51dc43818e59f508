//! Converts the result of a server's tool into a [`ToolOutput`]: JSON for programs; text, files and
//! links for the model.

use agentflow_schema::schema_check::SchemaCheck;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use agentflow_core::message::{Media, ResourceLink};
use agentflow_core::tool::{ToolError, ToolOutput};

/// Text that replaces a content block of an unknown type, such as one of a later protocol revision.
const UNKNOWN: &str = "[something that this program does not know was left out]";

/// Converts a result. The output is the structured value if the result has one, or else the text.
/// `schema` is the tool's schema for the structured value.
pub(super) fn output(
    result: CallToolResult,
    schema: Option<&SchemaCheck>,
) -> Result<ToolOutput, ToolError> {
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
                    files.push(
                        media(mime_type.as_deref().unwrap_or("application/octet-stream"), &blob)
                            .name(uri),
                    );
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
        let said = if text.is_empty() {
            structured_content.map(|value| value.to_string())
        } else {
            Some(text)
        };
        return Err(ToolError::new(
            said.unwrap_or_else(|| "the tool failed and did not say why".to_owned()),
        ));
    }
    let output = match structured_content {
        Some(value) => {
            if let Some(Err(problem)) = schema.map(|schema| schema.check(&value)) {
                let problem =
                    format!("the tool ran, but its answer is not one that it declares: {problem}");
                return Err(ToolError::new(problem));
            }
            let output = ToolOutput::json(&value)?;
            // Most servers repeat the structured value as text. The model gets it only once.
            match text.is_empty()
                || serde_json::from_str::<Value>(&text).is_ok_and(|said| said == value)
            {
                true => output,
                false => output.with_text(text),
            }
        }
        None if schema.is_some() => {
            return Err(ToolError::new(
                "the tool ran, but its answer has no structured value, which it declares",
            ));
        }
        // A result of only files or links has no value.
        None if text.is_empty() && (!files.is_empty() || !links.is_empty()) => {
            ToolOutput::json(&Value::Null)?
        }
        None => ToolOutput::text(text),
    };
    let output = files.into_iter().fold(output, ToolOutput::with_media);
    Ok(links.into_iter().fold(output, ToolOutput::with_link))
}

/// Reads a result that contains blocks of unknown types, and replaces each of them with text.
/// Returns `None` if the value is not a tool result.
pub(super) fn with_known_blocks(mut result: Value) -> Option<CallToolResult> {
    for block in result.get_mut("content")?.as_array_mut()? {
        if serde_json::from_value::<ContentBlock>(block.clone()).is_err() {
            *block = serde_json::json!({"type": "text", "text": UNKNOWN});
        }
    }
    serde_json::from_value(result).ok()
}

/// Creates a file from base64 content.
pub(super) fn media(mime_type: &str, base64: &str) -> Media {
    Media::new(mime_type, format!("data:{mime_type};base64,{base64}"))
}
