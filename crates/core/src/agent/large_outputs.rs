//! Large answers of tools: saved as artifacts, of which the model sees the beginning and reads more with `read_artifact`.
//!
//! Only what a model would read is moved. The answers of a workflow's steps are values, and stay what they are.

use std::sync::Arc;

use agentflow_schema::text::head;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::Context;
use crate::event::{ANSWER_TOOL, TRANSFER_TOOL};
use crate::message::{ToolResult, ToolStatus};
use crate::tool::{Effects, FnTool, ToolError, ToolOutput, ToolPolicy};

/// The tool by which a model reads more of an artifact.
pub(super) const READ_TOOL: &str = "read_artifact";

/// The most bytes of an answer that becomes an artifact.
const MOST: usize = 16 << 20;

/// The least that a call reads: room for every character.
const LEAST: usize = 4;

/// What an agent does with large answers of its tools: given to [`Limits::large_outputs`](super::Limits::large_outputs).
///
/// An answer over the limit is saved as an [artifact](crate::artifact), named `tool_outputs/` and the path of its call. The
/// model sees how it begins, and has a tool `read_artifact` for the rest and for every other artifact that the run sees.
/// What is recorded is what the model saw, so a run that is resumed, and the next run of its session, continue with the same.
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
    /// Over 16 KiB, some 4,000 tokens, with a head of 2 KiB.
    fn default() -> Self {
        Self::over(16 << 10)
    }
}

impl LargeOutputs {
    /// Answers of more than so many bytes are saved, of up to 16 MiB: the tool's own
    /// [`max_output`](ToolPolicy::max_output) does not count below that. It is also the most that one call of
    /// `read_artifact` reads; at least 4. The head has 2 KiB, or all of a smaller limit.
    pub fn over(bytes: usize) -> Self {
        let over = bytes.max(LEAST);
        Self { over, head: over.min(2 << 10) }
    }

    /// How many bytes of a large answer the model sees; at most as many as may stay.
    #[must_use]
    pub fn head(mut self, bytes: usize) -> Self {
        self.head = bytes.min(self.over);
        self
    }

    /// How many bytes an answer may have to stay as it is.
    pub fn bytes(&self) -> usize {
        self.over
    }

    /// How many bytes of a larger one the model sees.
    pub fn head_bytes(&self) -> usize {
        self.head
    }

    /// Whether the answers of a tool may be saved: not those that are the run's, nor a piece of an artifact.
    fn is_about(tool: &str) -> bool {
        ![ANSWER_TOOL, TRANSFER_TOOL, READ_TOOL].contains(&tool)
    }

    /// The most bytes that the answer of a tool may have.
    pub(super) fn room_for(tool: &str) -> Option<usize> {
        Self::is_about(tool).then_some(MOST)
    }

    /// Saves a large answer as a part of its call, and gives what the model sees of it.
    pub(super) async fn put_away(self, cx: &Context, result: Arc<ToolResult>) -> Arc<ToolResult> {
        let read = result.content.as_ref().and_then(|content| content.text.as_ref());
        let size = read.unwrap_or(&result.output).len();
        if size <= self.over || !result.status.is_success() || !Self::is_about(&result.name) {
            return result;
        }
        // As the model would have read it: a text that is JSON alone without its quotes.
        let (text, media) = match (read, serde_json::from_str::<String>(&result.output)) {
            (Some(text), _) => (text.clone(), "text/plain"),
            (None, Ok(text)) => (text, "text/plain"),
            (None, Err(_)) => (result.output.clone(), "application/json"),
        };
        // Records hold no secrets, and an artifact is read from a record's reference.
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

/// The name of an answer's artifact: by its call, so that it is the same when the call is repeated after a crash.
fn name_of(cx: &Context, tool: &str) -> String {
    let name = format!("tool_outputs/{}", cx.path());
    match crate::artifact::problem_of(&name, "text/plain") {
        None => name,
        Some(_) => format!("tool_outputs/{tool}"),
    }
}

/// What `read_artifact` is given.
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

/// The tool by which a model reads artifacts.
pub(super) fn read_tool(large: LargeOutputs) -> FnTool {
    let about =
        "Read a part of a saved artifact as text. Where the answer has `next_offset`, there is more from there on.";
    let read = move |cx: Context, reads: Reads| async move { read(&cx, reads, large.over).await };
    FnTool::new(READ_TOOL, about, read)
        .policy(ToolPolicy::default().effects(Effects::None).max_output((large.over * 6).saturating_add(64 << 10)))
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
        ToolError::new(format!("the artifact is not text but `{media}`; it cannot be read with this tool"))
    })?;
    let size = text.len();
    let from = usize::try_from(offset.unwrap_or_default()).unwrap_or(usize::MAX);
    if from > size {
        return Err(ToolError::invalid_arguments(format!(
            "`offset`: the artifact has {size} bytes; give at most that"
        )));
    }
    let from = head(text, from).len();
    let length = usize::try_from(length.unwrap_or(u64::MAX)).unwrap_or(usize::MAX).clamp(LEAST, most);
    let part = head(&text[from..], length);
    let end = from + part.len();
    let mut answer = json!({"artifact": name, "bytes": size, "offset": from, "text": part});
    if end < size {
        answer["next_offset"] = Value::from(end);
    }
    ToolOutput::json(&answer)
}
