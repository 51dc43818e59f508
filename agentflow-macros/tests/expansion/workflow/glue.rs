/// A `let` without a step is repeated by its readers, also after a name is bound again. One that nothing reads is written
/// once, for the compiler's warnings.
#[workflow]
async fn glue(a: String, b: u32) -> Result<String> {
    let length = a.len() + b;
    let unread = a.len();
    let (x, y) = pair(a).await?;
    let text = format!("{length} {y}");
    #[node(id = "second")]
    let a = step(text).await?;
    let last = step(a, length).await?;
    Ok(last)
}
