#[doc = include_str!("judge.md")]
/// For {customer}.
#[agent]
async fn judge(customer: String, limit: u8) -> Result<String>;
