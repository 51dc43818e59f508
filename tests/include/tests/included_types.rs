//! Tests an included document whose types differ from the types of the tool that it calls.
//!
//! This is a separate test program: every runtime of a program loads its included documents, and
//! this document has a mistake.

use agentflow::Error;
use agentflow::document::{Document, FolderError};
use agentflow::prelude::*;
use agentflow::runtime::{BootError, EntryKind};
use agentflow_include::include_workflow;

/// Count the words of a text.
#[tool(effects = "none")]
fn included_count(text: String) -> usize {
    text.split_whitespace().count()
}

#[include_workflow("included/misfit.yaml")]
async fn misfit(text: u32) -> Result<String>;

#[tokio::test]
async fn types_that_do_not_fit_are_reported_where_the_document_is_used() {
    let runtime = Runtime::default();
    let error = misfit::start(&runtime, 1).await.unwrap_err();
    assert!(matches!(error, Error::Build { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("--> included/misfit.yaml:5:21"), "{text}");
    assert!(
        text.contains("an argument of the tool `included_count`, `text`: string is expected"),
        "{text}"
    );
    let catalogue = runtime.catalogue().snapshot().await;
    assert!(catalogue.problems().iter().any(|problem| problem.to_string() == text));
    assert!(catalogue.get(EntryKind::Workflow, "included_misfit").is_err());
    assert!(misfit(1).await.is_err());
    let error = Runtime::builder().boot().await.unwrap_err();
    let BootError::Documents(FolderError::Documents(errors)) = error else { panic!("{error}") };
    assert_eq!((errors.len(), errors[0].problems()[0].line()), (1, 5));
    // Without the Rust types the same document is valid.
    let document = Document::read("misfit.yaml", include_str!("included/misfit.yaml")).unwrap();
    runtime.documents().check(&document).await.unwrap();
}
