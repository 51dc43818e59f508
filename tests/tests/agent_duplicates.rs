//! Duplicate names of agents and workflows within one program. The error names both places, and all
//! other entries still work.
//!
//! This is a separate test program, since all tests of a program share the linked agents and
//! workflows.

use agentflow::Runtime;
use agentflow::error::RegistryError;
use agentflow::runtime::EntryKind;

mod one {
    /// One.
    #[agentflow::agent]
    pub(crate) async fn same() -> agentflow::Result<String>;
}

mod other {
    /// The other.
    #[agentflow::agent(name = "same")]
    pub(crate) async fn another() -> agentflow::Result<String>;
}

#[agentflow::workflow(name = "twice")]
async fn one_workflow() -> agentflow::Result<i64> {
    Ok(1)
}

#[agentflow::workflow(name = "twice")]
async fn other_workflow() -> agentflow::Result<i64> {
    Ok(2)
}

#[agentflow::workflow(name = "alone")]
async fn alone() -> agentflow::Result<i64> {
    Ok(3)
}

/// Alone.
#[agentflow::agent]
async fn lone_agent() -> agentflow::Result<String>;

#[test]
fn a_third_workflow_and_a_third_agent_are_found() {
    let runtime = Runtime::default();
    assert_eq!(runtime.catalogue().workflow_graph("alone").unwrap().name, "alone");
    assert_eq!(&*runtime.catalogue().agent_outline("lone_agent").unwrap().name, "lone_agent");
    let error = runtime.catalogue().workflow_graph("twice").unwrap_err().to_string();
    let (file, places) =
        ("tests/agent_duplicates.rs:", error.matches("agent_duplicates.rs:").count());
    assert!(
        error.contains("two workflows have this name: at ") && error.contains(file) && places == 2,
        "{error}"
    );
    let error = runtime.catalogue().agent_outline("same").unwrap_err().to_string();
    assert!(error.contains("two agents are named `same`"), "{error}");
    let error = runtime.catalogue().workflow_graph("alne").unwrap_err().to_string();
    assert!(error.ends_with("did you mean `alone`?"), "{error}");
}

#[tokio::test]
async fn the_catalogue_has_the_rest_and_both_problems() {
    let catalogue = Runtime::default().catalogue().snapshot().await;
    let problems: Vec<String> = catalogue.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(problems[0].contains("two agents are named `same`"), "{problems:#?}");
    assert!(problems[1].contains("two workflows have this name"), "{problems:#?}");
    catalogue.get(EntryKind::Workflow, "alone").unwrap();
    catalogue.get(EntryKind::Agent, "lone_agent").unwrap();
}

#[test]
fn two_agents_of_one_name_are_named_with_their_places() {
    let (first, second) = (one::same::definition().source(), other::another::definition().source());
    let error = Runtime::default().catalogue().agents().unwrap_err();
    assert!(matches!(error, RegistryError::DuplicateAgent { name: "same", .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!(
            "two agents are named `same`: at {first} and at {second}; rename one or give it `#[agent(name = \"..\")]`"
        )
    );
}
