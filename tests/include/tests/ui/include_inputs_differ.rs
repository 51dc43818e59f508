//! Parameters that differ from the inputs of the document.

use agentflow::prelude::*;
use agentflow_include::include_workflow;

#[include_workflow("include/words.yaml")]
async fn words(cx: &Context, topics: String) -> Result<usize>;

fn main() {}
