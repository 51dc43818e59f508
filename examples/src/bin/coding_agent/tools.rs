//! What the agent may do: read all files of a folder, write those below its `src`, and run the tests.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::serde_json::Value;
use agentflow::tool::{FnTool, Tool, ToolError};
use agentflow::tools::{Programs, Storage};

/// The artifact of what the tests wrote; each time they run it has a further version.
pub(crate) const TEST_OUTPUT: &str = "tests.json";

/// The tools for a folder.
pub(crate) fn of(folder: &Path) -> io::Result<Vec<FnTool>> {
    let mut tools = Storage::open(folder)?.writable(["src"])?.tools();
    // The shell reads the file of the tests, which the agent cannot write; what the agent gives it are words and no commands.
    let tests = Programs::in_folder(folder)?.program_with("test", "/bin/sh", ["tests/all.sh"]);
    tools.push(keeping_output(tests.timeout(Duration::from_secs(10)).max_output(16 << 10).tool()));
    Ok(tools)
}

/// The same tool, whose answers are kept as an artifact of the run.
fn keeping_output(tool: FnTool) -> FnTool {
    let definition = (**tool.definition()).clone();
    let tool = Arc::new(tool);
    FnTool::dynamic(definition, move |cx: Context, arguments: Value| {
        let tool = Arc::clone(&tool);
        async move {
            let answer = tool.call(&cx, &arguments.to_string()).await?;
            let kept = cx.save_artifact(TEST_OUTPUT, answer.as_json(), "application/json").await;
            kept.map_err(|problem| ToolError::new(format!("what the tests wrote is not kept: {problem}")))?;
            Ok::<_, ToolError>(answer)
        }
    })
}
