use agentflow::prelude::*;

/// Give the money back.
#[tool(requires_approval, permission = "billing:write", max_retries = 3)]
async fn refund(order: u32) -> String {
    order.to_string()
}

/// Judge the order.
#[agent(system_prompt = "Be exact.", max_turns = 4)]
async fn judge(order: u32) -> Result<String>;

#[workflow(max_concurrency = 4)]
async fn complain(order: u32) -> Result<String> {
    let receipt = refund(order).await;
    Ok(receipt)
}

fn main() {}
