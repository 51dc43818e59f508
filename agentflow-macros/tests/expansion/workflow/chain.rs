/// Looks at a page.
#[workflow]
async fn look_at(url: String) -> Result<usize> {
    let page = fetch(url).await?;
    let words = page.split(' ');
    let count = count(words.collect()).await?;
    Ok(count + 1)
}
