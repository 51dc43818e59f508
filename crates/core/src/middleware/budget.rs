//! `token_budget`: a limit on the tokens of an agent, a run, or several runs. It counts from the journal and the store's
//! list of runs, and stores no count, so a crash loses nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::reserve::{Reservations, Verdict};
use super::{Flow, Middleware, ModelStep};
use crate::error::{Error, Result};
use crate::event::Spending;
use crate::message::Message;
use crate::model::{ModelResponse, StopReason};
use crate::run::usage_of_runs;
use crate::store::RunFilter;
use crate::time::Timestamp;

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
/// let runtime = Runtime::builder().with(token_budget(100).failing()).build();
/// let Err(error) = Agent::new(model).tools(tools![look_up]).runtime(&runtime).run("Go").await else { panic!() };
/// assert_eq!(error.to_string(), "Token budget of 100 exceeded.");
/// # Ok(())
/// # }
/// ```
pub fn token_budget(max_tokens: u64) -> TokenBudget {
    let name = format!("token_budget_{max_tokens}").into();
    TokenBudget { max_tokens, name, scope: Scope::Run, window: None, fails: false, reservations: Arc::default() }
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
    /// Counts all runs of the run's [session](crate::session). A run without a session is counted by itself. The key is
    /// `_token_count`.
    Session,
    /// Counts all runs of the run's [caller](crate::agent::RunRequest::caller). A run without a caller is counted by itself.
    /// The key is `user:_token_count`.
    Caller,
    /// Counts all runs of the runtime's store. The key is `app:_token_count`.
    App,
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
/// The other runs of a [session](Scope::Session), of a [caller](Scope::Caller) or of the [store](Scope::App) are counted as the
/// store has them when a call is about to be made. The reservations are those of one run: calls of several runs that begin at
/// the same time may together go over such a budget. Without a store, such a budget fails each run with
/// [`Error::Middleware`].
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
    window: Option<Duration>,
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

    /// Counts only those other runs that began in the last `window`, such as a day. It is for the scopes of several runs:
    /// [`Scope::Session`], [`Scope::Caller`] and [`Scope::App`]. Default: all of them.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Fails in place of an answer that says that the budget is exceeded.
    #[must_use]
    pub fn failing(mut self) -> Self {
        self.fails = true;
        self
    }

    /// The name of what is counted, as in answers' `usage.raw`, such as `_token_count`; see [`Scope`].
    pub fn key(&self) -> &'static str {
        match self.scope {
            Scope::Run | Scope::Session => "_token_count",
            Scope::Invocation => "temp:_token_count",
            Scope::Caller => "user:_token_count",
            Scope::App => "app:_token_count",
        }
    }

    /// Returns the runs that are counted with the run of a call; `None` when it is counted by itself.
    fn counted_runs(&self, step: &ModelStep) -> Option<RunFilter> {
        let run = step.context().run();
        let runs = match self.scope {
            Scope::Run | Scope::Invocation => return None,
            Scope::Session => RunFilter::new().session(run.own()?.began.session()?),
            Scope::Caller => RunFilter::new().caller(run.own()?.began.caller()?),
            Scope::App => RunFilter::new(),
        };
        Some(match self.window {
            Some(window) => {
                let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
                runs.since(Timestamp::from_millis(run.now().as_millis().saturating_sub(window)))
            }
            None => runs,
        })
    }

    /// Returns the tokens of the other runs that are counted with the run of a call.
    async fn tokens_of_other_runs(&self, step: &ModelStep) -> Result<u64> {
        let Some(runs) = self.counted_runs(step) else { return Ok(0) };
        let run = step.context().run();
        let Some((store, _)) = run.log.store() else {
            let problem = "it counts the tokens of several runs, and there is no store that has them; give the runtime one with \
                           `Runtime::builder().store(..)`";
            return Err(Error::Middleware { name: Arc::clone(&self.name), problem: problem.to_owned() });
        };
        Ok(usage_of_runs(store, runs, Some(&run.id)).await?.total_tokens())
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
        let before = self.tokens_of_other_runs(step).await?;
        let refuses =
            |spent: u64, least: u64| spent >= self.max_tokens || spent.saturating_add(least) > self.max_tokens;
        let spent_by = |step: &ModelStep| before.saturating_add(tokens(&step.spent()));
        let (goes, spent) = match self.scope {
            // The calls of one agent follow each other.
            Scope::Invocation => {
                let (spent, least) = step.own_tokens();
                (!refuses(spent, least), spent)
            }
            Scope::Run | Scope::Session | Scope::Caller | Scope::App => {
                let ask = |step: &ModelStep, others: &[Spending], own: &Spending| {
                    let spent = spent_by(step);
                    let expected = tokens(others).saturating_add(own.usage.total_tokens());
                    match () {
                        () if refuses(spent, tokens(&step.at_least())) => Verdict::Refuse,
                        () if spent.saturating_add(expected) > self.max_tokens => Verdict::Wait,
                        () => Verdict::Go,
                    }
                };
                (self.reservations.admit(step, ask).await, spent_by(step))
            }
        };
        if goes {
            return Ok(Flow::Continue);
        }
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
