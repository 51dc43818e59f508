//! A path that leads nowhere, and options that are not known.

use agentflow::prelude::*;
use agentflow_include::include_workflow;

#[include_workflow("include/no_such.yaml")]
async fn nowhere(topic: String) -> Result<usize>;

#[include_workflow(file = "include/words.yaml")]
async fn named(topic: String) -> Result<usize>;

#[include_workflow("include/words.yaml", tool = [count])]
async fn option(topic: String) -> Result<usize>;

fn main() {}
