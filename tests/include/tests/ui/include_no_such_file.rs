//! A file that does not exist, and unknown options of the attribute.

use agentflow::prelude::*;
use agentflow_include::include_workflow;

#[include_workflow("include/no_such.yaml")]
async fn nowhere(topic: String) -> Result<usize>;

#[include_workflow(file = "include/words.yaml")]
async fn named(topic: String) -> Result<usize>;

#[include_workflow("include/words.yaml", tool = [count])]
async fn option(topic: String) -> Result<usize>;

fn main() {}
