//! A document that is not YAML.

use agentflow::prelude::*;
use agentflow_include::include_workflow;

#[include_workflow("include/syntax.yaml")]
async fn syntax(topic: String) -> Result<usize>;

fn main() {}
