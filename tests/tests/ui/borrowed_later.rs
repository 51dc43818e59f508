#![allow(unused)]

use agentflow::tool;

#[tool]
fn shout(times: usize, text: &str, more: Option<&str>, most: std::borrow::Cow<'_, str>) -> String {
    text.repeat(times)
}

fn main() {
    agentflow::tools![shout];
}
