//! [`token_budget`]: a limit on the tokens of an agent, a run, or several runs. The tokens are
//! counted from the journal and the store's list of runs. The middleware stores no counter, so the
//! count survives a crash.

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

/// Creates a budget that refuses the model call that would exceed a number of input and output
/// tokens; see [`TokenBudget`].
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
    TokenBudget {
        max_tokens,
        name,
        scope: Scope::Run,
        window: None,
        fails: false,
        reservations: Arc::default(),
    }
}

/// Scope of a [`TokenBudget`]: the agents or runs whose tokens it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// The run, including nested agents and workflows, also before a restart. Each run of a
    /// [session](crate::session) is counted separately. The key is `_token_count`.
    #[default]
    Run,
    /// A single invocation of an agent in the run. The key is `temp:_token_count`.
    Invocation,
    /// All runs of the run's [session](crate::session). A run without a session is counted
    /// separately. The key is `_token_count`.
    Session,
    /// All runs of the run's [caller](crate::agent::RunRequest::caller). A run without a caller is
    /// counted separately. The key is `user:_token_count`.
    Caller,
    /// All runs of the runtime's store. The key is `app:_token_count`.
    App,
}

/// A budget of input and output tokens; created by [`token_budget`].
///
/// A call is refused if the spent tokens, plus the minimum cost of the call and of the running
/// calls, exceed the budget. The minimum is known because an agent's next call contains the input
/// and output of its previous call. A running call is not interrupted, so the last response can
/// exceed the budget. Tokens of failed calls are unknown and not counted.
///
/// Concurrent agents share the budget. Each call reserves its expected cost before it is made and
/// returns the reservation when it has ended, failed or been dropped. The expected cost is one
/// token for every three bytes of the request, plus a response of
/// [`max_tokens`](crate::model::ModelSettings::max_tokens). Without that setting, the longest
/// response of the run so far is expected, and at least 4,096 tokens. A call that does not fit in
/// addition to the reservations of others waits until they end. Then it is made, or refused because
/// of the tokens that were really spent: an estimate alone refuses no call, and a single call never
/// waits. Cancelling the run ends the wait. A call inside another call, by an agent in a hook, does
/// not wait.
///
/// The other runs of a [session](Scope::Session), of a [caller](Scope::Caller) or of the
/// [store](Scope::App) are counted before each call, as recorded in the store. Reservations apply
/// to one run only, so concurrent calls of several runs can together exceed such a budget. Without
/// a store, a budget with one of these scopes fails each run with [`Error::Middleware`].
///
/// If a call is refused, the agent answers `Token budget of N exceeded.` with the stop reason
/// `token_budget`, and no model is called. An agent with a typed answer, and any agent if
/// [`failing`](Self::failing) is set, fails with [`Error::BudgetExceeded`] and this text.
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
    /// Sets the scope. Default: [`Scope::Run`].
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Counts only other runs that started in the last `window`, such as a day. For the scopes of
    /// several runs: [`Scope::Session`], [`Scope::Caller`] and [`Scope::App`]. Default: all runs.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Fails the agent with an error instead of answering that the budget is exceeded.
    #[must_use]
    pub fn failing(mut self) -> Self {
        self.fails = true;
        self
    }

    /// Name of the counter in the `usage.raw` of an answer, such as `_token_count`; see [`Scope`].
    pub fn key(&self) -> &'static str {
        match self.scope {
            Scope::Run | Scope::Session => "_token_count",
            Scope::Invocation => "temp:_token_count",
            Scope::Caller => "user:_token_count",
            Scope::App => "app:_token_count",
        }
    }

    /// Returns a filter for the other runs that are counted. Returns `None` if the run is counted
    /// separately.
    fn counted_runs(&self, step: &ModelStep) -> Option<RunFilter> {
        let run = step.context().run();
        let runs = match self.scope {
            Scope::Run | Scope::Invocation => return None,
            Scope::Session => RunFilter::new().session(run.own()?.began.session()?),
            Scope::Caller => RunFilter::new().caller(run.own()?.began.caller()?.name()),
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

    /// Returns the tokens of the other runs that are counted.
    async fn tokens_of_other_runs(&self, step: &ModelStep) -> Result<u64> {
        let Some(runs) = self.counted_runs(step) else { return Ok(0) };
        let run = step.context().run();
        let Some((store, _)) = run.log.store() else {
            let problem = "it counts the tokens of several runs, and there is no store that has them; give the runtime one with \
                           `Runtime::builder().store(..)`";
            return Err(Error::Middleware {
                name: Arc::clone(&self.name),
                problem: problem.to_owned(),
            });
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
        let refuses = |spent: u64, least: u64| {
            spent >= self.max_tokens || spent.saturating_add(least) > self.max_tokens
        };
        let spent_by = |step: &ModelStep| before.saturating_add(tokens(&step.spent()));
        let (goes, spent) = match self.scope {
            // The calls of one agent are sequential, so they need no reservations.
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
