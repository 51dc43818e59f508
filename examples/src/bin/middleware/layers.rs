//! Three custom middlewares. They are independent of each other; their order is set where the
//! runtime is built.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use agentflow::async_trait;
use agentflow::event::RunId;
use agentflow::message::{ToolResult, ToolStatus};
use agentflow::middleware::{Flow, Middleware, ModelStep, RunInfo, ToolStep};
use agentflow::model::ModelResponse;
use agentflow::prelude::*;

/// Logs each call and each answer. Clones share the log.
#[derive(Clone, Default)]
pub(crate) struct Audit(Arc<Mutex<Vec<String>>>);

impl Audit {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

#[async_trait]
impl Middleware for Audit {
    fn name(&self) -> &str {
        "audit"
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        self.write(format!("{} asks {}", step.agent(), step.info().model));
        Ok(Flow::Continue)
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        self.write(format!("{} {}", step.call().name, step.arguments));
        Ok(Flow::Continue)
    }

    async fn after_tool(&self, step: &ToolStep, result: &mut ToolResult) -> Result<()> {
        self.write(format!("{} answers {}", step.call().name, result.output));
        Ok(())
    }

    async fn on_tool_error(
        &self,
        step: &ToolStep,
        result: &ToolResult,
    ) -> Result<Flow<ToolResult>> {
        self.write(format!("{} fails: {}", step.call().name, result.output));
        Ok(Flow::Continue)
    }
}

/// Masks card numbers in tool outputs. Outer layers see only the last four digits.
pub(crate) struct HideCards;

/// Number of digits of a card number.
const CARD: usize = 16;

#[async_trait]
impl Middleware for HideCards {
    fn name(&self) -> &str {
        "hide_cards"
    }

    async fn after_tool(&self, _: &ToolStep, result: &mut ToolResult) -> Result<()> {
        result.output = hidden(&result.output);
        Ok(())
    }
}

/// Replaces the first 12 digits of each 16-digit number by stars.
fn hidden(text: &str) -> String {
    let pieces = text.split_inclusive(|letter: char| !letter.is_ascii_digit());
    let piece = |piece: &str| {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        match digits == CARD {
            true => format!("************{}", &piece[CARD - 4..]),
            false => piece.to_owned(),
        }
    };
    pieces.map(piece).collect()
}

/// Limits the number of tool calls per run. Further calls return a message to the model.
pub(crate) struct CallLimit {
    most: u32,
    calls: Mutex<BTreeMap<RunId, u32>>,
}

impl CallLimit {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, calls: Mutex::default() }
    }
}

#[async_trait]
impl Middleware for CallLimit {
    fn name(&self) -> &str {
        "call_limit"
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let made = calls.entry(step.context().run_id().clone()).or_default();
        if *made == self.most {
            let refusal =
                format!("this run may call tools {} times; answer with what you have", self.most);
            return Ok(Flow::Return(step.result(ToolStatus::TooManyCalls, refusal)));
        }
        *made += 1;
        Ok(Flow::Continue)
    }

    /// Drops the counter of a run when it ends.
    async fn after_run(&self, run: &RunInfo, _: Result<(), &agentflow::Error>) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(run.id());
    }
}
