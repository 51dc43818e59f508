//! Tests of `#[include_workflow]`, which compiles a document into the program.

use agentflow::RunId;
use agentflow::document::Document;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::value::Encoded;
use agentflow_include::include_workflow;
use agentflow_testing::{ScriptedModel, Turn, check_events};
use serde_json::{Value, json};

async fn run(runtime: &Runtime, name: &str, input: Value) -> Value {
    let handle = runtime
        .start_named(name, Encoded::new(&input).unwrap())
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    handle.result().await.unwrap_or_else(|error| panic!("{error}")).decode().unwrap()
}

/// Join two texts.
#[tool(effects = "none")]
fn included_join(first: String, second: String) -> String {
    format!("{first} {second}")
}

mod shop {
    /// Count the words of a text.
    #[agentflow::tool(effects = "none")]
    pub fn included_count(text: String) -> usize {
        text.split_whitespace().count()
    }
}

/// Counts the words of two texts; the parameters are in another order than the inputs.
#[include_workflow("included/words.yaml", tools = [included_join, shop::included_count])]
async fn count_both(cx: &Context, second: String, first: String) -> Result<usize>;

#[include_workflow("included/team.yaml")]
pub(crate) async fn team(
    message: String,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>>;

/// As a step of another workflow.
#[workflow]
async fn included_outer(cx: &Context, text: String) -> Result<usize> {
    let counted = count_both(cx, text.clone(), text).await?;
    let twice = counted * 2;
    Ok(twice)
}

#[tokio::test]
async fn an_included_document_is_started_with_its_types() {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let handle = count_both::start(&runtime, "c".to_owned(), "a b".to_owned())
        .run_id(RunId::new("run"))
        .await
        .unwrap();
    let count: usize = handle.result().await.unwrap();
    assert_eq!(count, 3);
    check_events(&runtime.run(handle.run_id()).journal().await.unwrap()).unwrap();
    assert_eq!(&*runtime.run(handle.run_id()).inspect().await.unwrap().run.name, "included_words");
    // Every runtime of the program finds the included document by its name.
    assert_eq!(
        run(&Runtime::default(), "included_words", json!({"first": "a", "second": "b"})).await,
        json!(2)
    );
    assert_eq!(count_both(&runtime.context(), "b".to_owned(), "a".to_owned()).await.unwrap(), 2);
    assert!(runtime.catalogue().dry_run("included_words").await.is_ok());
    let outer = runtime.start(included_outer::workflow(), "a b".to_owned()).await.unwrap();
    assert_eq!(outer.result().await.unwrap(), 8);
    let journal = runtime.run(outer.run_id()).journal().await.unwrap();
    assert!(
        journal.iter().any(|event| event.path.to_string() == "counted/joined"),
        "it is recorded below the step"
    );
}

#[tokio::test]
async fn agents_of_an_included_document_have_the_models_of_the_runtime() {
    let runtime =
        Runtime::builder().model(ScriptedModel::from_fn(|_| Turn::text("written"))).build();
    let handle = team::start(&runtime, "Hello.".to_owned()).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "written");
}

#[tokio::test]
async fn the_same_document_may_be_given_and_another_of_its_name_may_not() {
    let text = include_str!("included/words.yaml");
    let given = |text: &str| {
        Runtime::builder().document(Document::read("given.yaml", text).unwrap()).build()
    };
    assert_eq!(
        run(&given(text), "included_words", json!({"first": "a", "second": "b"})).await,
        json!(2)
    );
    let other = given(&text.replace("\"{joined}\"", "\"{joined} {joined}\""));
    let error = other
        .start_named("included_words", json!({"first": "a", "second": "b"}))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("from the document included/words.yaml"), "{error}");
}
