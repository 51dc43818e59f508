//! A scripted model: it looks, tries what it may not do, repairs, and runs the tests before and after.

use agentflow::serde_json::{Value, json};
use agentflow_testing::{ScriptedModel, Turn};

pub(crate) fn model() -> ScriptedModel {
    let test = || Turn::call("run_program", json!({"program": "test", "arguments": []}));
    let write = |path: &str, content: &str| Turn::call("storage_write", json!({"path": path, "content": content}));
    ScriptedModel::new([
        Turn::call("storage_read", json!({"path": "src/sum.sh"})),
        test(),
        // What is refused.
        Turn::call("storage_read", json!({"path": "../secret"})),
        write("tests/all.sh", "exit 0\n"),
        Turn::call("run_program", json!({"program": "rm", "arguments": ["-r", "."]})),
        // What repairs it.
        write("src/sum.sh", "sum() { echo $(($1 + $2)); }\n"),
        test(),
        Turn::with(|request| {
            let last = request.messages.last().and_then(|message| message.results().next().cloned());
            let answer: Value =
                last.and_then(|last| agentflow::serde_json::from_str(&last.output).ok()).unwrap_or_default();
            let passed = if answer["status"] == 0 { "pass" } else { "still fail" };
            Turn::text(format!("`sum` adds now where it subtracted; the tests {passed}."))
        }),
    ])
}
