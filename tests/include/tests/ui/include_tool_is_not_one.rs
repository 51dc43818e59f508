//! Tool paths that lead to a plain function or to no item.

use agentflow::prelude::*;
use agentflow_include::include_workflow;

fn count_wrods(text: String) -> usize {
    text.len()
}

#[include_workflow("include/words.yaml", tools = [count_wrods])]
async fn plain(topic: String) -> Result<usize>;

#[include_workflow("include/words.yaml", tools = [shop::count_wrods])]
async fn nowhere(topic: String) -> Result<usize>;

fn main() {}
