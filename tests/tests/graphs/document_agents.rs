//! Tests documents of agents: the scope of an agent's name, and the additional fields in real
//! documents.

use agentflow::agent::RunRequest;
use agentflow::prelude::*;
use agentflow::runtime::EntryKind;
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::{Value, json};

use crate::documents::{problems, read, run};

/// Returns a document with one agent, named `reader`.
fn reader_document(name: &str, instruction: &str) -> String {
    format!(
        "name: {name}\nagents: [{{name: reader, model: test/m, instruction: {instruction}}}]\norchestration: {{type: sequential, \
         agents: [reader]}}\n"
    )
}

/// Returns a model that answers with the agent's instruction.
fn echo() -> ScriptedModel {
    ScriptedModel::from_fn(|request| Turn::text(request.messages.messages()[0].text().to_string()))
}

#[tokio::test(start_paused = true)]
async fn two_documents_have_an_agent_of_one_name() {
    let documents = [
        read(&reader_document("intake", "Read it.")),
        read(&reader_document("billing", "Add it up.")),
    ];
    let runtime = documents
        .iter()
        .fold(test_runtime().model(echo()), |builder, of| builder.document(of.clone()))
        .build();
    for document in &documents {
        runtime.documents().check(document).await.unwrap_or_else(|error| panic!("{error}"));
    }
    let catalogue = runtime.catalogue().snapshot().await.check().unwrap();
    for (name, says) in [("intake", "Read it."), ("billing", "Add it up.")] {
        assert_eq!(run(&runtime, name, json!({"message": "m"})).await, json!(says));
        // Outside its document the agent's name is prefixed with the name of the document.
        let agent = format!("{name}.reader");
        assert!(catalogue.get(EntryKind::Agent, &agent).is_ok(), "{agent}");
        let alone = runtime.start_agent(&agent, RunRequest::new("m")).await.unwrap();
        assert_eq!(alone.result().await.unwrap().decode::<String>().unwrap(), says);
    }
    let error = runtime.start_agent("reader", RunRequest::new("m")).await.unwrap_err().to_string();
    assert!(error.contains("reader"), "{error}");
    // In another document the bare name is ambiguous.
    let other = read("name: other\ntopology: {agent: reader}\n");
    let error = runtime.documents().check(&other).await.unwrap_err();
    assert_eq!(
        error.problems()[0].message(),
        "the node `reader`: this program has no agent `reader`; did you mean `intake.reader`?"
    );
}

/// Checks that inner workflows also prefer the agent of the document to the agent of the program
/// with the same name.
#[tokio::test(start_paused = true)]
async fn an_agent_of_a_document_counts_in_it_before_that_of_the_program() {
    let text = reader_document("intake", "Read it.")
        .replace("type: sequential", "type: loop, max_iterations: 1");
    let of_program = Agent::new(echo()).name("reader").instruct("Mine.");
    let runtime = test_runtime().model(echo()).agent(&of_program).document(read(&text)).build();
    assert!(runtime.catalogue().snapshot().await.problems().is_empty());
    assert_eq!(run(&runtime, "intake", json!({"message": "m"})).await, json!("Read it."));
    let alone = runtime.start_agent("reader", RunRequest::new("m")).await.unwrap();
    assert_eq!(alone.result().await.unwrap().decode::<Value>().unwrap(), json!("Mine."));
    // A unique name needs no prefix.
    let runtime = test_runtime().model(echo()).document(read(&text)).build();
    assert!(
        runtime
            .catalogue()
            .snapshot()
            .await
            .check()
            .unwrap()
            .get(EntryKind::Agent, "reader")
            .is_ok()
    );
}

/// Reads a document with optional settings and with fields that this form does not define.
#[tokio::test(start_paused = true)]
async fn settings_and_further_fields_are_accepted() {
    let text = "name: team
agents:
  - name: reader
    type: llm
    description: Reads.
    model: test/m
    temperature: 0.2
    max_output_tokens: 100
    config: {frequency_penalty: 1}
    output_schema: {type: object, properties: {ok: {type: boolean}}}
    before_agent_callback: none
    instruction: |
      Answer like {\"ok\": {\"deep\": true}} or {}.

      About {message}: {\"a\": \"}\"}
orchestration: {type: sequential, agents: [reader]}
";
    let model = ScriptedModel::new([Turn::text("{\"ok\": true}")]).capturing();
    let runtime = test_runtime().model(model.clone()).document(read(text)).build();
    assert_eq!(run(&runtime, "team", json!({"message": "cars"})).await, json!("{\"ok\": true}"));
    let request = &model.requests()[0];
    assert_eq!(
        (request.settings.get_temperature(), request.settings.get_max_tokens()),
        (Some(0.2), Some(100))
    );
    assert_eq!(
        serde_json::to_value(&*request.settings).unwrap()["extra"],
        json!({"frequency_penalty": 1})
    );
    let texts: Vec<String> =
        request.messages.messages().iter().map(|of| of.text().to_string()).collect();
    assert!(
        texts[0].starts_with("Answer like {\"ok\": {\"deep\": true}} or {}.\n\nAnswer with JSON"),
        "{texts:?}"
    );
    assert_eq!(texts[1], "About cars: {\"a\": \"}\"}\n\ncars");
    // A misspelt field is a mistake and not an additional field. So is a brace that starts no JSON.
    assert_eq!(
        problems(&text.replace("instruction:", "instrucion:")),
        ["12:5: an agent has no `instrucion`; did you mean `instruction`?"]
    );
    assert_eq!(problems(&text.replace("or {}", "or {x")).len(), 1);
}

/// Checks that terms of other frameworks lead to a suggestion.
#[test]
fn mistakes_in_documents_of_agents_say_what_to_write() {
    let text = reader_document("intake", "Read it.");
    let one = |text: &str| {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        found[0].clone()
    };
    for (from, to, says) in [
        (
            "type: sequential, agents: [reader]",
            "type: parallel, agents: []",
            "`orchestration` needs at least one agent in `agents`",
        ),
        (
            "type: sequential, agents: [reader]",
            "type: loop, max_iterations: 1",
            "`orchestration` needs at least one agent",
        ),
        ("model: test/m, ", "", "2:11: the agent `reader` needs `model`"),
        ("name: reader", "name: reader, type: code", "`tree`"),
        ("name: reader", "name: reader, type: tool", "the forms `tools` and `tree` call a tool"),
        ("sequential", "react", "write `sequential` with one agent"),
        ("sequential", "dag", "the forms `tools` and `edges`"),
        ("sequential", "llm_routed", "the form `tree` has `route`"),
    ] {
        let found = one(&text.replace(from, to));
        assert!(found.contains(says), "{says}\n{found}");
    }
}
