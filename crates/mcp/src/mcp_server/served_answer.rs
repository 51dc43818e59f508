//! Converts results of tools and runs into protocol results: content blocks and a structured value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource, ResourceContents};
use serde_json::{Value, json};

use super::offered::{Offer, RESULT};
use agentflow_core::event::RunId;
use agentflow_core::message::{Media, ToolPart, ToolResult};
use agentflow_core::value::Encoded;

/// Key of the run's id, in the `_meta` of a result and in the data of an error.
pub(super) const RUN: &str = "agentflow/run";

/// Converts the result of a tool.
pub(super) fn of_tool(offer: &Offer, result: &ToolResult) -> CallToolResult {
    if !result.status.is_success() {
        return error(&*result.text());
    }
    let text = result.text();
    let has_text = !text.is_empty() || result.parts().is_empty();
    let mut content: Vec<ContentBlock> =
        has_text.then(|| ContentBlock::text(text)).into_iter().collect();
    content.extend(result.parts().iter().filter_map(part));
    with_structured(offer, CallToolResult::success(content), &result.output)
}

/// Converts the output of a run.
pub(super) fn of_run(offer: &Offer, run: &RunId, output: &Encoded) -> CallToolResult {
    let text = output.decode::<String>().unwrap_or_else(|_| output.as_str().to_owned());
    let result = CallToolResult::success(vec![ContentBlock::text(text)]);
    of(run, with_structured(offer, result, output.as_str()))
}

/// Creates an error result that the client's model reads.
pub(super) fn error(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Adds the id of the run to a result.
pub(super) fn of(run: &RunId, result: CallToolResult) -> CallToolResult {
    result.with_meta(Some(run_meta(run)))
}

/// Returns the `_meta` object with the id of a run.
pub(super) fn run_meta(run: &RunId) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.0.insert(RUN.to_owned(), run.as_str().into());
    meta
}

fn with_structured(offer: &Offer, mut result: CallToolResult, json: &str) -> CallToolResult {
    let value = serde_json::from_str::<Value>(json).unwrap_or_default();
    result.structured_content = match offer.is_wrapped {
        true => Some(json!({RESULT: value})),
        false => value.is_object().then_some(value),
    };
    result
}

/// Returns `None` for a kind of part that this server cannot send.
fn part(part: &ToolPart) -> Option<ContentBlock> {
    match part {
        ToolPart::Media(file) => Some(media(file)),
        ToolPart::Link(link) => {
            let mut resource = Resource::new(&link.uri, link.name.as_deref().unwrap_or(&link.uri));
            resource.mime_type.clone_from(&link.mime_type);
            Some(ContentBlock::resource_link(resource))
        }
        _ => None,
    }
}

/// Converts a file into a block with its content, or into a link if the file has an address.
pub(super) fn media(file: &Media) -> ContentBlock {
    let Media { mime_type, url, name, .. } = file;
    let Some((_, base64)) = url.strip_prefix("data:").and_then(|data| data.split_once(";base64,"))
    else {
        let mut resource = Resource::new(url, name.as_deref().unwrap_or(url));
        resource.mime_type = Some(mime_type.clone());
        return ContentBlock::resource_link(resource);
    };
    match mime_type.split('/').next() {
        Some("image") => ContentBlock::image(base64, mime_type),
        Some("audio") => ContentBlock::audio(base64, mime_type),
        _ => {
            let uri = name.clone().unwrap_or_else(|| "file".to_owned());
            let contents = match text_of(mime_type, base64) {
                Some(text) => ResourceContents::text(text, uri),
                None => ResourceContents::blob(base64, uri),
            };
            ContentBlock::resource(contents.with_mime_type(mime_type))
        }
    }
}

/// Returns the content of a file as text, if its media type is textual.
fn text_of(mime_type: &str, base64: &str) -> Option<String> {
    let is_text = mime_type.starts_with("text/")
        || matches!(mime_type, "application/json" | "application/xml");
    let bytes = is_text.then(|| STANDARD.decode(base64).ok()).flatten()?;
    String::from_utf8(bytes).ok()
}
