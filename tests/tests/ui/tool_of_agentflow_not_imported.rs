use agentflow::prelude::*;

/// Book a seat for {name}.
#[agent(tools = [ask_user])]
async fn book(name: String) -> Result<String>;

fn main() {
    let _ = tools![recall];
}
