//! A tool of the document that the attribute does not list, and unused tools in the attribute.

use agentflow::prelude::*;
use agentflow_include::include_workflow;

/// Count the words of a text.
#[tool]
fn count_words(text: String) -> usize {
    text.split_whitespace().count()
}

/// Count the lines of a text.
#[tool]
fn count_lines(text: String) -> usize {
    text.lines().count()
}

#[include_workflow("include/words.yaml", tools = [count_words, count_lines])]
async fn words(topic: String) -> Result<usize>;

fn main() {}
