use agentflow::prelude::*;

fn checked(n: i64) -> Result<i64, String> {
    Err(format!("{n} is too large"))
}

#[workflow]
async fn double(n: i64) -> Result<i64> {
    let n = checked(n)?;
    Ok(n * 2)
}

fn main() {}
