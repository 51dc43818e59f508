#![allow(dead_code)]

use agentflow::Result;
use agentflow::prelude::*;

struct Reviewer;

impl Reviewer {
    #[workflow]
    async fn review(&self, cx: &Context, diff: String) -> Result<String> {
        let text = self.report(cx, diff).await?;
        Ok(text)
    }

    async fn report(&self, _: &Context, text: String) -> Result<String> {
        Ok(text)
    }
}

fn main() {}
