/// Asks a person, and follows the answer.
#[workflow]
async fn merge(change: Change) -> Result<String> {
    #[node(timeout = "7d")]
    let approval = gate!("merge {change}?", change).await?;
    let outcome = match approval {
        Approval::Granted { .. } => merge_now(change).await?,
        Approval::Denied { comment } => comment_on(change, comment).await?,
    };
    Ok(outcome)
}
