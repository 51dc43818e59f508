//! Two nodes that depend on each other.

use agentflow::prelude::*;
use agentflow_include::include_workflow;

#[include_workflow("include/cycle.yaml")]
async fn cycle() -> Result<usize>;

fn main() {}
