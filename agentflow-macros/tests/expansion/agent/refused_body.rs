/// Not an agent, since it has a body.
#[agent]
async fn answer(question: String) -> Result<String> {
    Ok(question)
}
