use agentflow::prelude::*;

#[workflow]
async fn add(one: i64, other: i64) -> Result<i64> {
    let sum = one + other;
    Ok(sum)
}

async fn start(runtime: Runtime) {
    let _ = runtime.start(add::workflow(), 1);
}

fn main() {}
