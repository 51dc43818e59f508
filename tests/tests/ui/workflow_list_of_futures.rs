use agentflow::prelude::*;

async fn size(url: String) -> Result<usize> {
    Ok(url.len())
}

#[workflow]
async fn sizes(urls: Vec<String>) -> Result<Vec<usize>> {
    let sizes: Vec<_> = urls.into_iter().map(|url| size(url)).collect();
    Ok(sizes)
}

fn main() {}
