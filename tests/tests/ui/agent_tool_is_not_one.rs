use agentflow::prelude::*;

fn search(query: String) -> String {
    query
}

/// Judge {text}.
#[agent(tools = [search, missing, judge])]
async fn judge(cx: &Context, text: String) -> agentflow::Result<String>;

fn main() {}
