//! Two agents of one name in one program: the error names both places. A test program of its own, since all tests of a
//! program share its linked agents and so would meet this error.

use agentflow::Runtime;
use agentflow::error::RegistryError;

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

#[test]
fn two_agents_of_one_name_are_named_with_their_places() {
    let (first, second) = (one::same::definition().source(), other::another::definition().source());
    let error = Runtime::default().agents().unwrap_err();
    assert!(matches!(error, RegistryError::DuplicateAgent { name: "same", .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!(
            "two agents are named `same`: at {first} and at {second}; rename one or give it `#[agent(name = \"..\")]`"
        )
    );
}
