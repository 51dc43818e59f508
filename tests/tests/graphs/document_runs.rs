//! Runs a document of each form and checks its result. Exporting it and reading the export gives
//! the same workflow with the same result.

use agentflow::document::{Document, DocumentForm, to_yaml};
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow_testing::{ScriptedModel, Turn, check_events};
use serde_json::{Value, json};

use crate::document_edges::with_far;
use crate::documents::read;

use DocumentForm::{Agents, Edges, Graph, Steps, Tools, Tree};

/// A document and the expected results of its run.
struct Case {
    text: &'static str,
    /// A document that this document calls.
    calls: Option<&'static str>,
    form: DocumentForm,
    input: fn() -> Value,
    /// The expected requests to the model, with its answers.
    turns: fn() -> Vec<Turn>,
    output: fn() -> Value,
    /// The forms that can express the document.
    written_as: &'static [DocumentForm],
}

const TRACKED: &str = include_str!("../../../crates/core/tests/documents/forms-tracker.yaml");
const AT_ONCE: &str = include_str!("../../../crates/core/tests/documents/forms-both.yaml");
const ROUNDS: &str = include_str!("../../../crates/core/tests/documents/forms-rounds.yaml");
const LAST_ROUND: &str = include_str!("../../../crates/core/tests/documents/forms-until.yaml");
const ROUTED: &str = include_str!("../../../crates/core/tests/documents/forms-edges.json");
const OF_AN_EDITOR: &str = include_str!("../../../crates/core/tests/documents/forms-camel.yaml");
const FOLLOWED: &str = include_str!("../../../crates/core/tests/documents/forms-steps.yaml");
const REPORTED: &str = include_str!("../../../crates/core/tests/documents/forms-report.yaml");
const EVERY_OPERATOR: &str = include_str!("../../../crates/core/tests/documents/forms-tree.yaml");
const PLANNED: &str = include_str!("../../../crates/core/tests/documents/forms-plan.yaml");
const COMPOSED: &str = include_str!("../../../crates/core/tests/documents/forms-composed.yaml");
const OF_AGENTS: &str = include_str!("../../../crates/core/tests/documents/forms-of-agents.yaml");

const ALL: [Case; 12] = [
    Case {
        text: TRACKED,
        calls: None,
        form: Agents,
        input: || json!({"message": "The rates?"}),
        turns: || {
            vec![
                Turn::call("doc_search", json!({"query": "rates", "most": 1}))
                    .expect_last("The rates?"),
                Turn::text("1.1 dollars"),
                Turn::text("It rises.").expect_last("The rates are 1.1 dollars\n\nThe rates?"),
            ]
        },
        output: || json!("It rises."),
        written_as: &[Agents],
    },
    Case {
        text: AT_ONCE,
        calls: None,
        form: Agents,
        input: || json!({"message": "?"}),
        turns: || vec![Turn::text("same").expect_last("?"), Turn::text("same").expect_last("?")],
        output: || json!({"one": "same", "two": "same"}),
        written_as: &[Agents],
    },
    Case {
        text: ROUNDS,
        calls: None,
        form: Agents,
        input: || json!({"message": "A poem."}),
        turns: || {
            vec![
                Turn::text("draft").expect_last("{\"last\":null,\"message\":\"A poem.\"}"),
                Turn::text("final").expect_last("{\"last\":\"draft\",\"message\":\"A poem.\"}"),
            ]
        },
        output: || json!("final"),
        written_as: &[Agents],
    },
    Case {
        text: LAST_ROUND,
        calls: None,
        form: Agents,
        input: || json!({"message": "A poem."}),
        turns: || vec![Turn::text("draft"), Turn::call("exit_loop", json!({}))],
        output: || json!("draft"),
        written_as: &[Agents],
    },
    Case {
        text: ROUTED,
        calls: None,
        form: Edges,
        input: || json!({"input": {"pr_url": "u/1"}}),
        turns: Vec::new,
        output: || json!({"pr_url": "u/1", "finding": {"pr_url": "u/1"}, "left": {"of": {"pr_url": "u/1"}}}),
        written_as: &[Edges, Graph],
    },
    Case {
        text: OF_AN_EDITOR,
        calls: None,
        form: Edges,
        input: || json!({"input": {"pr_url": "u/1"}}),
        turns: Vec::new,
        output: || json!({"pr_url": "u/1", "output": {"pr_url": "u/1"}, "tool_used": "review", "server_id": "code_review"}),
        written_as: &[Edges, Graph],
    },
    Case {
        text: FOLLOWED,
        calls: None,
        form: Steps,
        input: || json!({"input": {"pr_url": "u/1"}}),
        turns: || {
            vec![
                Turn::call("mcp__code_review__review", json!({"pr_url": "u/1"}))
                    .expect_last("{\"pr_url\":\"u/1\"}"),
                Turn::text("fine"),
            ]
        },
        output: || {
            let review =
                "{\"output\":\"fine\",\"server_id\":\"code_review\",\"tool_used\":\"review\"}";
            let message =
                format!("[summarize_findings\n\n{{\"pr_url\":\"u/1\",\"review\":{review}}}]");
            json!({"output": message, "agent_id": "summarize_findings", "endpoint": "http://it"})
        },
        written_as: &[Steps],
    },
    Case {
        text: REPORTED,
        calls: None,
        form: Tools,
        input: || json!({"task": "rust"}),
        turns: Vec::new,
        output: || json!("4 words about rust!"),
        written_as: &[Tools, Graph],
    },
    Case {
        text: EVERY_OPERATOR,
        calls: None,
        form: Tree,
        input: || json!({"input": {"task": "rust"}}),
        turns: || {
            let asked = "[\"<rust 1 rust 1>\",\"<rust 2 rust 2>\"] again again";
            vec![Turn::text("helped").expect_last(asked)]
        },
        output: || json!("helped and 1!"),
        written_as: &[Tree],
    },
    Case {
        text: PLANNED,
        calls: None,
        form: Graph,
        input: || json!({"task": "rust"}),
        turns: || vec![Turn::text("seen").expect_last("See [\"rust 1\",\"rust 2\"]")],
        output: || json!("seen"),
        written_as: &[Graph],
    },
    Case {
        text: COMPOSED,
        calls: Some(REPORTED),
        form: Tree,
        input: || json!({"input": ["rust"]}),
        turns: || vec![Turn::text("checked").expect_last("Check 4 words about rust!")],
        output: || json!("checked"),
        written_as: &[Tree, Graph],
    },
    Case {
        text: OF_AGENTS,
        calls: Some(ROUNDS),
        form: Graph,
        input: || json!({"task": "A poem."}),
        turns: || vec![Turn::text("draft"), Turn::text("final")],
        output: || json!("final"),
        written_as: &[Graph],
    },
];

impl Case {
    /// Returns the result of running `document` with the input and model of this case.
    async fn result_of(&self, document: &Document) -> Value {
        let model = ScriptedModel::new((self.turns)());
        let helper = Agent::new(model.clone()).name("forms_helper");
        let builder = with_far(Runtime::builder())
            .store(MemoryStore::new())
            .model(model.clone())
            .agent(&helper);
        let builder = builder.documents(self.calls.map(read)).document(document.clone());
        let runtime = builder.build();
        runtime.documents().check(document).await.unwrap_or_else(|error| panic!("{error}"));
        let run = runtime
            .start_named(document.name(), (self.input)())
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let result =
            run.result().await.unwrap_or_else(|error| panic!("{}: {error}", document.name()));
        check_events(&runtime.run(run.run_id()).journal().await.unwrap()).unwrap();
        model.finish();
        result.decode().unwrap()
    }
}

#[tokio::test]
async fn a_document_of_each_form_has_its_result_and_is_written_again() {
    for case in ALL {
        let document = read(case.text);
        let name = document.name().to_owned();
        assert_eq!(document.form(), case.form, "{name}");
        assert_eq!(case.result_of(&document).await, (case.output)(), "{name}");
        let mut written_as = Vec::new();
        for form in DocumentForm::ALL {
            let Ok(written) = document.export(form) else { continue };
            written_as.push(form);
            for text in [to_yaml(&written), written.to_string()] {
                let again = read(&text);
                assert_eq!(again.form(), form, "{name}");
                assert_eq!(again.graph().hash(), document.graph().hash(), "{name} as {form}");
                assert_eq!(again.inner(), document.inner(), "{name} as {form}");
                assert_eq!(again.export(form).unwrap(), written, "{name} as {form}");
                assert_eq!(
                    case.result_of(&again).await,
                    (case.output)(),
                    "{name} as {form}: {text}"
                );
            }
        }
        written_as.sort_by_key(|form| DocumentForm::ALL.iter().position(|other| other == form));
        let mut expected = case.written_as.to_vec();
        expected.sort_by_key(|form| DocumentForm::ALL.iter().position(|other| other == form));
        assert_eq!(written_as, expected, "{name}");
    }
}

#[test]
fn every_form_is_run() {
    for form in DocumentForm::ALL {
        assert!(ALL.iter().any(|case| case.form == form), "{form}");
    }
}
