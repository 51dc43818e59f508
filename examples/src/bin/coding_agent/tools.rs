//! The five tools of the agent. They list a folder, read its files, change files below `src`, run
//! the tests, and compare the files with their original versions.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::tool::{FnTool, Tool, ToolError};
use agentflow::tools::{Programs, Storage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the artifact with the output of the tests. Each test run saves a new version.
pub(crate) const TEST_OUTPUT: &str = "tests.json";

/// The folder that the tools work on. They access it only through the library's tools for files and
/// programs.
pub(crate) struct Repository {
    tools: Vec<FnTool>,
    /// Original content of the files, by path.
    before: BTreeMap<String, String>,
}

impl Repository {
    /// Opens a folder and reads its files.
    pub(crate) async fn open(folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let mut repository = Self { tools: tools_for(folder)?, before: BTreeMap::new() };
        let cx = Context::detached();
        for path in repository.files(&cx).await? {
            let text = repository.read(&cx, &path).await?;
            repository.before.insert(path, text);
        }
        Ok(repository)
    }

    /// Calls a tool of the library.
    async fn call(&self, cx: &Context, name: &str, arguments: &Value) -> Result<Value, ToolError> {
        let tool = self.tools.iter().find(|tool| *tool.definition().name == *name);
        let tool =
            tool.ok_or_else(|| ToolError::new(format!("the folder has no tool `{name}`")))?;
        let answer = tool.call(cx, &arguments.to_string()).await?;
        serde_json::from_str(answer.as_json()).map_err(|error| ToolError::new(error.to_string()))
    }

    /// Returns the paths of all files, sorted.
    async fn files(&self, cx: &Context) -> Result<Vec<String>, ToolError> {
        let mut files = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let listing = self.call(cx, "storage_list", &json!({"path": folder})).await?;
            for entry in listing["entries"].as_array().into_iter().flatten() {
                let name = entry["name"].as_str().unwrap_or_default();
                let path =
                    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                match entry["kind"].as_str() {
                    Some("folder") => folders.push(path),
                    Some("file") => files.push(path),
                    _ => {}
                }
            }
        }
        files.sort();
        Ok(files)
    }

    async fn read(&self, cx: &Context, path: &str) -> Result<String, ToolError> {
        let text = self.call(cx, "storage_read", &json!({"path": path})).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }
}

fn tools_for(folder: &Path) -> io::Result<Vec<FnTool>> {
    let mut tools = Storage::open(folder)?.writable(["src"])?.tools();
    // The shell reads the test file, which the agent cannot write. The agent passes only arguments,
    // not commands.
    let tests = Programs::in_folder(folder)?.program_with("test", "/bin/sh", ["tests/all.sh"]);
    tools.push(tests.timeout(Duration::from_secs(10)).max_output(16 << 10).tool());
    Ok(tools)
}

/// List the paths of all files.
#[tool(effects = "read")]
pub(crate) async fn read_repo_structure(
    cx: &Context,
    repository: Inject<Repository>,
) -> Result<Vec<String>, ToolError> {
    repository.files(cx).await
}

/// Read files, by their paths.
#[tool(effects = "read")]
pub(crate) async fn read_files(
    cx: &Context,
    repository: Inject<Repository>,
    targets: Vec<String>,
) -> Result<BTreeMap<String, String>, ToolError> {
    let mut texts = BTreeMap::new();
    for path in targets {
        let text = repository.read(cx, &path).await?;
        texts.insert(path, text);
    }
    Ok(texts)
}

/// A change of a file.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Change {
    /// The path of the file.
    path: String,
    /// A text that is in the file exactly once.
    find: String,
    /// The text that takes its place.
    replace: String,
}

/// Change files: in each, a text that is there exactly once is replaced by another one. Nothing is changed if one text is not
/// found.
#[tool]
pub(crate) async fn apply_patch(
    cx: &Context,
    repository: Inject<Repository>,
    changes: Vec<Change>,
) -> Result<Vec<String>, ToolError> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for Change { path, find, replace } in changes {
        let text = match texts.remove(&path) {
            Some(text) => text,
            None => repository.read(cx, &path).await?,
        };
        if text.matches(&find).count() != 1 {
            return Err(ToolError::invalid_arguments(format!(
                "`{find}` is not in `{path}` exactly once; read the file, and give a longer or another text"
            )));
        }
        texts.insert(path, text.replacen(&find, &replace, 1));
    }
    for (path, content) in &texts {
        repository.call(cx, "storage_write", &json!({"path": path, "content": content})).await?;
    }
    Ok(texts.into_keys().collect())
}

/// Run the tests whose names have a pattern in them; an empty one runs all.
#[tool]
pub(crate) async fn run_tests(
    cx: &Context,
    repository: Inject<Repository>,
    pattern: String,
) -> Result<Value, ToolError> {
    let call = json!({"program": "test", "arguments": [pattern]});
    let answer = repository.call(cx, "run_program", &call).await?;
    let kept = cx.save_artifact(TEST_OUTPUT, answer.to_string(), "application/json").await;
    kept.map_err(|problem| {
        ToolError::new(format!("the output of the tests is not kept: {problem}"))
    })?;
    Ok(answer)
}

/// Summarize the changes of all files since the work began.
#[tool(effects = "read")]
pub(crate) async fn summarize_diff(
    cx: &Context,
    repository: Inject<Repository>,
) -> Result<String, ToolError> {
    let mut summary = String::new();
    for (path, before) in &repository.before {
        let now = repository.read(cx, path).await?;
        if now != *before {
            summary += &difference(path, before, &now);
        }
    }
    Ok(if summary.is_empty() { "nothing has changed".to_owned() } else { summary })
}

/// Returns the differing lines of a file, without the common lines at its beginning and end.
fn difference(path: &str, before: &str, now: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), now.lines().collect());
    let begin = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let same_at_end = old[begin..]
        .iter()
        .rev()
        .zip(new[begin..].iter().rev())
        .take_while(|(one, other)| one == other);
    let end = same_at_end.count();
    let (removed, added) = (&old[begin..old.len() - end], &new[begin..new.len() - end]);
    let mut text = format!("{path}: {} removed, {} added\n", removed.len(), added.len());
    for line in removed {
        text += &format!("- {line}\n");
    }
    for line in added {
        text += &format!("+ {line}\n");
    }
    text
}
