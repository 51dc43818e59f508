/// A closure and a method are steps whose function is not known.
#[workflow]
async fn local(cx: &Context, a: Client) -> Result<String> {
    let shout = |text: String| async move { Ok(text.to_uppercase()) };
    let page = a.fetch(cx).await?;
    let loud = shout(page).await?;
    Ok(loud)
}
