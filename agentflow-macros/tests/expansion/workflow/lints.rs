/// Lint levels are written before all statements that hold the user's code.
#[workflow]
#[allow(clippy::pedantic)]
async fn lints(#[allow(unused)] a: u32) -> Result<u32> {
    #[expect(deprecated)]
    let (x, y) = step(a).await?;
    let z = match x {
        #[allow(deprecated)]
        1 => step(y).await?,
        _ => y,
    };
    #[allow(deprecated)]
    #[node(id = "end", retry = 2)]
    step(z).await
}
