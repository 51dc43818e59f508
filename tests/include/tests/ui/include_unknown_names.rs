//! Mistakes within the document, each reported with its position in the document.

use agentflow::prelude::*;
use agentflow_include::include_workflow;

#[include_workflow("include/mistakes.yaml")]
async fn mistakes(topic: String) -> Result<usize>;

fn main() {
    let _ = mistakes("rust".to_owned());
}
