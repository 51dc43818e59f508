/// Two steps that read the same output, and one that reads both.
#[workflow(concurrency = 4, stop = best_effort)]
async fn review(cx: &Context, change: Change) -> Result<Verdict> {
    let diff = load(cx, change).await?;
    #[node(retry = 3, timeout = "30s")]
    let lint = run_linter(diff).await?;
    let (title, body) = summarize(cx, diff).await?;
    judge(cx, lint, title, body).await
}
