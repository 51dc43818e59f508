/// You are a release manager at {app:company}.
/// Judge the risk of {change.title}.
#[agent(tools = [incidents, orders::find], max_steps = 5, temperature = 0.2)]
pub async fn judge(cx: &Context, change: Change, limit: u32) -> Result<Risk>;
