//! A scripted model. It reads the files, tries forbidden changes, repairs the program, and runs the
//! tests before and after.

use agentflow::serde_json::{Value, json};
use agentflow_testing::{ScriptedModel, Turn};

pub(crate) fn model() -> ScriptedModel {
    let test = || Turn::call("run_tests", json!({"pattern": "sum"}));
    let patch = |path: &str, find: &str, replace: &str| {
        Turn::call(
            "apply_patch",
            json!({"changes": [{"path": path, "find": find, "replace": replace}]}),
        )
    };
    ScriptedModel::new([
        Turn::call("read_repo_structure", json!({})),
        Turn::call("read_files", json!({"targets": ["src/sum.sh"]})),
        test(),
        // Calls that are refused.
        Turn::call("read_files", json!({"targets": ["../secret"]})),
        patch("tests/all.sh", "exit 1", "exit 0"),
        patch("src/sum.sh", "$1 * $2", "$1 + $2"),
        // The repair.
        patch("src/sum.sh", "$1 - $2", "$1 + $2"),
        test(),
        Turn::call("summarize_diff", json!({})),
        Turn::with(|request| {
            let answers = request.messages.messages().iter().flat_map(|message| message.results());
            let last = answers.filter(|answer| answer.name == "run_tests").last().cloned();
            let answer: Value = last
                .and_then(|last| agentflow::serde_json::from_str(&last.output).ok())
                .unwrap_or_default();
            let passed = if answer["status"] == 0 { "pass" } else { "still fail" };
            Turn::text(format!("`sum` adds now where it subtracted; the tests {passed}."))
        }),
    ])
}
