use agentflow::prelude::*;

#[workflow]
async fn review(url: String) -> Result<String> {
    let page = url.to_uppercase();
    Ok(page)
}

async fn start(runtime: Runtime) {
    let _ = runtime.start(review, "https://example.com".to_owned());
}

fn main() {}
