#![allow(unused)]

use agentflow::tool;

struct Answer;

#[tool]
fn ask() -> Answer {
    Answer
}

#[tool]
async fn try_ask() -> Result<Answer, String> {
    Ok(Answer)
}

fn main() {
    agentflow::tools![ask, try_ask];
}
