//! `token_budget`: a limit on the tokens of an agent or a run. It counts from the journal and keeps no count of its
//! own, so a crash loses nothing.

use std::sync::Arc;

use async_trait::async_trait;

use super::reserve::{Reservations, Verdict};
use super::{Flow, Middleware, ModelStep};
use crate::error::{Error, Result};
use crate::event::Spending;
use crate::message::Message;
use crate::model::{ModelResponse, StopReason};

/// Stops before the model call that would exceed a number of tokens, read and written; see [`TokenBudget`].
///
/// ```
/// use agentflow::middleware::token_budget;
/// use agentflow::prelude::*;
/// use agentflow::model::Usage;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// /// Look something up.
/// #[tool(effects = "none")]
/// fn look_up(what: String) -> String {
///     what
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let arguments = agentflow::serde_json::json!({"what": "x"});
/// let model = ScriptedModel::new([Turn::call("look_up", arguments).usage(Usage::new(60, 20))]);
/// let runtime = Runtime::builder().with(token_budget(100)).build();
/// let result = Agent::new(model).tools(tools![look_up]).runtime(&runtime).run("Go").await?;
/// assert_eq!(result.output(), "Token budget of 100 exceeded.");
/// assert_eq!(result.stop_reason().as_str(), "token_budget");
/// # Ok(())
/// # }
/// ```
pub fn token_budget(max_tokens: u64) -> TokenBudget {
    let name = format!("token_budget_{max_tokens}").into();
    TokenBudget { max_tokens, name, scope: Scope::Run, fails: false, reservations: Arc::default() }
}

/// Whose tokens a [`TokenBudget`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Those of the run, with every agent and workflow that it starts, in all its lives. Of a [session](crate::session) each
    /// run is counted by itself. The key is `_token_count`.
    #[default]
    Run,
    /// Those of one invocation: of one agent of the run. The key is `temp:_token_count`.
    Invocation,
}

/// A budget of tokens, read and written; made by [`token_budget`].
///
/// A call is refused when the tokens that are spent, with what the call and those that are running cost at least, are
/// more than the budget: an agent's next call reads again what its last one read and wrote. A call in progress is
/// not cut off, so the answer of the last one may go over. Tokens that failed calls cost are not known to anybody.
///
/// Agents that run at the same time share the budget: each call reserves what it is expected to cost before it is made,
/// and returns the reservation when it has ended, failed or been dropped. Expected are a token for every three bytes of
/// the request, and an answer of [`max_tokens`](crate::model::ModelSettings::max_tokens); without that setting, as many
/// tokens as the longest answer of the run had, and at least 4,096. A call that does not fit beside the reservations of
/// others waits for them to end. Then it is made, or refused because of what was really spent; an estimate alone
/// refuses nothing, and a call that is the only one never waits. Cancelling the run ends the wait. A call inside of
/// another one, by an agent in a hook, does not wait either.
///
/// Refused, the agent answers `Token budget of N exceeded.` with the stop reason `token_budget`, and no model is
/// called. An agent with a typed answer, and any agent after [`failing`](Self::failing), fails with
/// [`Error::BudgetExceeded`] and this text.
#[derive(Clone, Debug)]
#[doc(alias = "TokenBudgetMiddleware")]
pub struct TokenBudget {
    max_tokens: u64,
    name: Arc<str>,
    scope: Scope,
    fails: bool,
    reservations: Arc<Reservations>,
}

impl TokenBudget {
    /// Sets whose tokens are counted. Default: those of the run.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Fails in place of an answer that says that the budget is exceeded.
    #[must_use]
    pub fn failing(mut self) -> Self {
        self.fails = true;
        self
    }

    /// The name of what is counted, as in answers' `usage.raw`: `_token_count` or `temp:_token_count`.
    pub fn key(&self) -> &'static str {
        match self.scope {
            Scope::Run => "_token_count",
            Scope::Invocation => "temp:_token_count",
        }
    }
}

#[async_trait]
impl Middleware for TokenBudget {
    fn name(&self) -> &str {
        &self.name
    }

    fn sees_tools(&self) -> bool {
        false
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        let refuses =
            |spent: u64, least: u64| spent >= self.max_tokens || spent.saturating_add(least) > self.max_tokens;
        let goes = match self.scope {
            // The calls of one agent follow each other.
            Scope::Invocation => {
                let (spent, least) = step.own_tokens();
                !refuses(spent, least)
            }
            Scope::Run => {
                let ask = |step: &ModelStep, others: &[Spending], own: &Spending| {
                    let spent = tokens(&step.spent());
                    let expected = tokens(others).saturating_add(own.usage.total_tokens());
                    match () {
                        () if refuses(spent, tokens(&step.at_least())) => Verdict::Refuse,
                        () if spent.saturating_add(expected) > self.max_tokens => Verdict::Wait,
                        () => Verdict::Go,
                    }
                };
                self.reservations.admit(step, ask).await
            }
        };
        if goes {
            return Ok(Flow::Continue);
        }
        let spent = match self.scope {
            Scope::Run => tokens(&step.spent()),
            Scope::Invocation => step.own_tokens().0,
        };
        let message = format!("Token budget of {} exceeded.", self.max_tokens);
        if self.fails || step.is_typed() {
            return Err(Error::BudgetExceeded { budget: Arc::clone(&self.name), message });
        }
        let mut response = ModelResponse::new(Message::assistant(message));
        response.stop_reason = StopReason::Other("token_budget".to_owned());
        response.usage.raw = Some(Box::new(serde_json::json!({ self.key(): spent })));
        Ok(Flow::Return(response))
    }
}

fn tokens(rows: &[Spending]) -> u64 {
    rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.usage.total_tokens()))
}
