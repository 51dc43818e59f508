//! Function signatures that `#[include_workflow]` rejects.

use agentflow_include::include_workflow;

#[include_workflow("include/words.yaml")]
fn blocking(topic: String) -> Result<usize>;

#[include_workflow("include/words.yaml")]
async fn with_a_body(topic: String) -> Result<usize> {
    Ok(topic.len())
}

#[include_workflow("include/words.yaml")]
async fn no_output<T>((topic, _): (String, T));

#[include_workflow("include/words.yaml")]
struct Words;

#[include_workflow("include/words.yaml")]
async fn borrowed(topic: &str) -> Result<usize>;

#[include_workflow("include/words.yaml")]
async fn no_result(topic: String) -> usize;

fn main() {}
