//! Large tool results: the full result is saved as an artifact. The model receives the beginning
//! and can read more with `read_artifact`.
//!
//! Only results that are sent to a model are moved. The values of workflow steps are not changed.

use std::sync::Arc;

use agentflow_schema::text::head;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::Context;
use crate::event::{ANSWER_TOOL, TRANSFER_TOOL};
use crate::message::{ToolResult, ToolStatus};
use crate::tool::{Effects, FnTool, ToolError, ToolOutput, ToolPolicy};

/// Name of the tool with which a model reads an artifact.
pub(super) const READ_TOOL: &str = "read_artifact";

/// Maximum size in bytes of a result that becomes an artifact.
const MOST: usize = 16 << 20;

/// Minimum number of bytes that a call reads, enough for any UTF-8 character.
const LEAST: usize = 4;

/// Settings for large tool results, used by
/// [`Limits::large_outputs`](super::Limits::large_outputs).
///
/// A result over the limit is saved as an [artifact](crate::artifact), named `tool_outputs/`
/// followed by the path of its call. The model receives the beginning, and a tool `read_artifact`
/// to read the rest and every other artifact that is visible to the run. The journal contains the
/// text that the model received, so a resumed run and the next run of the session continue with the
/// same text.
///
/// ```
/// use agentflow::agent::LargeOutputs;
///
/// let large = LargeOutputs::over(20_000).head(1_000);
/// assert_eq!((large.bytes(), large.head_bytes()), (20_000, 1_000));
/// assert_eq!(LargeOutputs::default(), LargeOutputs::over(16_384).head(2_048));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LargeOutputs {
    over: usize,
    head: usize,
}

impl Default for LargeOutputs {
    /// Returns settings with a limit of 16 KiB, about 4,000 tokens, and a head of 2 KiB.
    fn default() -> Self {
        Self::over(16 << 10)
    }
}

impl LargeOutputs {
    /// Saves results of more than this number of bytes, up to 16 MiB. Below 16 MiB, the tool's own
    /// [`max_output`](ToolPolicy::max_output) does not apply. The number is also the maximum that a
    /// call of `read_artifact` returns. Values below 4 count as 4. The head has 2 KiB, or the whole
    /// limit if that is smaller.
    pub fn over(bytes: usize) -> Self {
        let over = bytes.max(LEAST);
        Self { over, head: over.min(2 << 10) }
    }

    /// Sets the number of bytes at the beginning of a large result that the model receives. It is
    /// capped by the limit.
    #[must_use]
    pub fn head(mut self, bytes: usize) -> Self {
        self.head = bytes.min(self.over);
        self
    }

    /// Returns the maximum size in bytes of a result that is not saved.
    pub fn bytes(&self) -> usize {
        self.over
    }

    /// Returns the number of bytes of a large result that the model receives.
    pub fn head_bytes(&self) -> usize {
        self.head
    }

    /// `true` if results of this tool may be saved. Excludes the built-in tools for answers and
    /// handoffs, and pieces of artifacts.
    fn applies_to(tool: &str) -> bool {
        ![ANSWER_TOOL, TRANSFER_TOOL, READ_TOOL].contains(&tool)
    }

    /// Returns the maximum size of the tool's result, or `None` if the tool's own limit applies.
    pub(super) fn max_size(tool: &str) -> Option<usize> {
        Self::applies_to(tool).then_some(MOST)
    }

    /// Saves a large result as an artifact of its call, and returns the short result for the model.
    pub(super) async fn save_if_large(
        self,
        cx: &Context,
        result: Arc<ToolResult>,
    ) -> Arc<ToolResult> {
        let read = result.content.as_ref().and_then(|content| content.text.as_ref());
        let size = read.unwrap_or(&result.output).len();
        if size <= self.over || !result.status.is_success() || !Self::applies_to(&result.name) {
            return result;
        }
        // The model reads a JSON string without its quotes, so the artifact is plain text in that
        // case.
        let (text, media) = match (read, serde_json::from_str::<String>(&result.output)) {
            (Some(text), _) => (text.clone(), "text/plain"),
            (None, Ok(text)) => (text, "text/plain"),
            (None, Err(_)) => (result.output.clone(), "application/json"),
        };
        // The journal contains no secrets. The artifact is read through a reference in the journal,
        // so it must not contain them either.
        let text = match &cx.host().redactor {
            Some(redactor) => redactor.text(&text).into_owned(),
            None => text,
        };
        let begins = head(&text, self.head).to_owned();
        let bytes = text.len();
        let mut moved = ToolResult::clone(&result);
        match cx.save_artifact(&name_of(cx, &result.name), text, media).await {
            Ok(saved) => {
                moved.output = json!({
                    "artifact": saved.name,
                    "version": saved.version,
                    "bytes": bytes,
                    "head": begins,
                    "note": format!(
                        "The answer is large and was saved as an artifact. This is its beginning; call `{READ_TOOL}` with \
                         `offset` {} to read on.",
                        begins.len()
                    ),
                })
                .to_string();
                moved.whole_bytes = Some(u64::try_from(bytes).unwrap_or(u64::MAX));
                if let Some(content) = &mut moved.content {
                    content.text = None;
                }
                moved.content = moved.content.filter(|content| !content.parts.is_empty());
            }
            Err(error) => {
                moved.status = ToolStatus::Error;
                moved.content = None;
                moved.output = format!(
                    "the tool ran, but its answer of {bytes} bytes could not be saved: {error}. It begins: {begins}"
                );
            }
        }
        Arc::new(moved)
    }
}

/// Returns the name of the artifact. It is derived from the call's path, so a repeated call after a
/// crash uses the same name.
fn name_of(cx: &Context, tool: &str) -> String {
    let name = format!("tool_outputs/{}", cx.path());
    match crate::artifact::problem_of(&name, "text/plain") {
        None => name,
        Some(_) => format!("tool_outputs/{tool}"),
    }
}

/// Arguments of `read_artifact`.
#[derive(Deserialize, JsonSchema)]
struct Reads {
    /// The artifact's name.
    artifact: String,
    /// Its version; the newest one without it.
    version: Option<u32>,
    /// How many bytes are left out at the beginning. Default: 0.
    offset: Option<u64>,
    /// How many bytes are read at most.
    length: Option<u64>,
}

/// Creates the tool with which a model reads artifacts.
pub(super) fn read_tool(large: LargeOutputs) -> FnTool {
    let about = "Read a part of a saved artifact as text. If the answer has `next_offset`, more text follows at that offset.";
    let read = move |cx: Context, reads: Reads| async move { read(&cx, reads, large.over).await };
    FnTool::new(READ_TOOL, about, read)
        // JSON escapes can enlarge a piece up to six times, for example control characters.
        .policy(
            ToolPolicy::default()
                .effects(Effects::None)
                .max_output((large.over * 6).saturating_add(64 << 10)),
        )
}

async fn read(cx: &Context, reads: Reads, most: usize) -> Result<ToolOutput, ToolError> {
    let Reads { artifact: name, version, offset, length } = reads;
    let found = match version {
        Some(version) => cx.artifact_version(&name, version).await,
        None => cx.artifact(&name).await,
    };
    let artifact = found.map_err(|error| ToolError::new(error.to_string()))?.ok_or_else(|| {
        let of = version.map_or_else(String::new, |version| format!(" of version {version}"));
        ToolError::invalid_arguments(format!(
            "`artifact`: there is no artifact `{}`{of} here; give the name and the version as they were given to you",
            head(&name, 200)
        ))
    })?;
    let text = artifact.text().map_err(|_| {
        let media = &artifact.reference.media_type;
        ToolError::new(format!(
            "the artifact is not text but `{media}`; it cannot be read with this tool"
        ))
    })?;
    let size = text.len();
    let from = usize::try_from(offset.unwrap_or_default()).unwrap_or(usize::MAX);
    if from > size {
        return Err(ToolError::invalid_arguments(format!(
            "`offset`: the artifact has {size} bytes; give at most that"
        )));
    }
    // `head` rounds down to a character boundary.
    let from = head(text, from).len();
    let length =
        usize::try_from(length.unwrap_or(u64::MAX)).unwrap_or(usize::MAX).clamp(LEAST, most);
    let part = head(&text[from..], length);
    let end = from + part.len();
    let mut answer = json!({"artifact": name, "bytes": size, "offset": from, "text": part});
    if end < size {
        answer["next_offset"] = Value::from(end);
    }
    ToolOutput::json(&answer)
}
