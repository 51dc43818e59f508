/// The other forms.
#[workflow]
async fn forms(draft: String) -> Result<String> {
    let first = race!(fast(draft), good(draft)).await?;
    let second = fallback!(one(first), two(first)).await?;
    let third = repeat!(second, |text| improve(text), until = |text| text.good, max = 5).await?;
    let fourth = timeout!("30s", check(third)).await?;
    Ok(fourth)
}
