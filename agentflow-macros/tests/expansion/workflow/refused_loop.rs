/// Not a workflow, since a loop has no fixed graph.
#[workflow]
async fn crawl(urls: Vec<String>) -> Result<()> {
    for url in urls {
        fetch(url).await?;
    }
    Ok(())
}
