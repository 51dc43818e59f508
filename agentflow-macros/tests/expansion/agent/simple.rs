/// Answer in one sentence: {question}
#[agent(model = "anthropic/claude-sonnet-4-5")]
async fn answer(question: String) -> Result<String>;
