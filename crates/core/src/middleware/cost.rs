//! [`cost_tracker`]: the cost of model calls, by prices that the program sets. The amounts are
//! computed from the tokens in the journal, so a resumed run continues with the right sum.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::reserve::{Reservations, Verdict};
use super::{Flow, Middleware, ModelStep};
use crate::error::{Error, Result};
use crate::event::{RunId, Spending};
use crate::model::{ModelInfo, ModelResponse, Usage};

/// Price of a million tokens of a model. The currency is any, but must be the same for all prices.
///
/// ```
/// use agentflow::middleware::Price;
/// use agentflow::model::Usage;
///
/// let price = Price::per_million(0.25, 2.0);
/// assert_eq!(price.of(&Usage::new(2_000_000, 500_000)), 1.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    input: f64,
    output: f64,
    cached: Option<f64>,
    cache_write: Option<f64>,
}

impl Price {
    /// Creates a price from the price of a million input tokens and of a million output tokens.
    pub fn per_million(input: f64, output: f64) -> Self {
        Self { input, output, cached: None, cache_write: None }
    }

    /// Sets the price of a million tokens read from the provider's cache. Default: the price of
    /// input tokens.
    #[must_use]
    pub fn cached(mut self, price: f64) -> Self {
        self.cached = Some(price);
        self
    }

    /// Sets the price of a million tokens written to the provider's cache. Default: the price of
    /// input tokens.
    #[must_use]
    pub fn cache_write(mut self, price: f64) -> Self {
        self.cache_write = Some(price);
        self
    }

    /// Returns the cost of these tokens.
    #[expect(clippy::cast_precision_loss, reason = "nobody pays for so many tokens")]
    pub fn of(&self, usage: &Usage) -> f64 {
        let cached = usage.cached_tokens.unwrap_or(0).min(usage.input_tokens);
        let written = usage.cache_write_tokens.unwrap_or(0).min(usage.input_tokens - cached);
        let plain = usage.input_tokens - cached - written;
        let sum = plain as f64 * self.input
            + cached as f64 * self.cached.unwrap_or(self.input)
            + written as f64 * self.cache_write.unwrap_or(self.input)
            + usage.output_tokens as f64 * self.output;
        sum / 1_000_000.0
    }
}

/// Prices of models.
///
/// ```
/// use agentflow::middleware::{Price, Prices};
///
/// let prices = Prices::new().model("openai/gpt-5-mini", Price::per_million(0.25, 2.0));
/// assert!(prices.get("openai", "gpt-5-mini").is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Creates an empty price list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the price of a model. The name is `provider/model` as in `model.started`, or `model`
    /// for all providers.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>, price: Price) -> Self {
        self.0.insert(model.into(), price);
        self
    }

    /// Returns the price of a model.
    pub fn get(&self, provider: &str, model: &str) -> Option<&Price> {
        self.0.get(&format!("{provider}/{model}")).or_else(|| self.0.get(model))
    }

    /// Returns the cost of rows from [`Runs::spending`](crate::runtime::Runs::spending) or
    /// [`RunHandle::spending`](crate::RunHandle::spending). A model without a price costs nothing.
    pub fn cost(&self, rows: &[Spending]) -> f64 {
        rows.iter()
            .filter_map(|row| Some(self.get(&row.provider, &row.model)?.of(&row.usage)))
            .sum()
    }
}

/// Cost of a model call, and the sums so far. Amounts are in the currency of the prices.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cost {
    /// Id of the run.
    pub run_id: RunId,
    /// Name of the agent.
    pub agent: Arc<str>,
    /// Name of the wire format or provider.
    pub provider: Arc<str>,
    /// Name of the model.
    pub model: Arc<str>,
    /// Tokens of the call.
    pub usage: Usage,
    /// Cost of the call; `None` if the model has no price.
    pub cost: Option<f64>,
    /// Cost of the agent in this run, including this call.
    pub agent_total: f64,
    /// Cost of the run, also before a restart, including this call.
    pub run_total: f64,
}

/// Receives the cost of every model call. Implemented for closures over a [`Cost`].
pub trait CostSink: Send + Sync {
    /// Receives the cost of a call. Called on the run's task, so slow work should be passed to
    /// another task.
    fn spent(&self, cost: &Cost);
}

impl<F: Fn(&Cost) + Send + Sync> CostSink for F {
    fn spent(&self, cost: &Cost) {
        self(cost);
    }
}

/// Creates a tracker that sums up the cost of model calls, by agent and in total; see
/// [`CostTracker`].
///
/// ```
/// use agentflow::middleware::{Price, Prices, cost_tracker};
/// use agentflow::prelude::*;
/// use agentflow::model::Usage;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let prices = Prices::new().model("openai/gpt-5-mini", Price::per_million(0.25, 2.0).cached(0.025));
/// let costs = cost_tracker(prices).max_cost(5.0).sink(|cost: &agentflow::middleware::Cost| {
///     println!("{} has spent {:.4}", cost.agent, cost.agent_total);
/// });
/// let runtime = Runtime::builder().with(costs.clone()).build();
/// let model = ScriptedModel::new([Turn::text("Hello.").usage(Usage::new(1_000_000, 0))]).named("openai", "gpt-5-mini");
/// Agent::new(model).name("greeter").runtime(&runtime).run("Hi").await?;
/// assert_eq!(costs.total(), 0.25);
/// assert_eq!(costs.by_agent()["greeter"], 0.25);
/// # Ok(())
/// # }
/// ```
pub fn cost_tracker(prices: Prices) -> CostTracker {
    CostTracker {
        prices,
        max_cost: None,
        allow_unpriced: false,
        sinks: Vec::new(),
        totals: Arc::default(),
        reservations: Arc::default(),
    }
}

/// Sums up the cost of model calls; created by [`cost_tracker`]. Clones share their totals.
///
/// Calling a model without a price is an error, unless [`allow_unpriced`](Self::allow_unpriced) is
/// set. With [`max_cost`](Self::max_cost), a run fails with [`Error::BudgetExceeded`] before the
/// call that would exceed the limit. The check includes the minimum cost of the call and of the
/// running calls. A call whose expected cost does not fit in addition to the running calls waits
/// until one of them has ended, as for a [`TokenBudget`](super::TokenBudget).
#[derive(Clone)]
pub struct CostTracker {
    prices: Prices,
    max_cost: Option<f64>,
    allow_unpriced: bool,
    sinks: Vec<Arc<dyn CostSink>>,
    totals: Arc<Mutex<BTreeMap<String, f64>>>,
    reservations: Arc<Reservations>,
}

impl CostTracker {
    /// Sets the maximum cost of a run, including nested agents and workflows. Default: no limit.
    #[must_use]
    pub fn max_cost(mut self, cost: f64) -> Self {
        self.max_cost = Some(cost);
        self
    }

    /// Allows calls to models without a price. They count as free.
    #[must_use]
    pub fn allow_unpriced(mut self) -> Self {
        self.allow_unpriced = true;
        self
    }

    /// Adds a sink that receives the cost of every call.
    #[must_use]
    pub fn sink(mut self, sink: impl CostSink + 'static) -> Self {
        self.sinks.push(Arc::new(sink));
        self
    }

    /// Returns the cost of all calls that this tracker saw in this process.
    pub fn total(&self) -> f64 {
        self.by_agent().values().sum()
    }

    /// Returns the cost by name of the agent.
    pub fn by_agent(&self) -> BTreeMap<String, f64> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Middleware for CostTracker {
    fn name(&self) -> &str {
        "cost_tracker"
    }

    fn sees_tools(&self) -> bool {
        false
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        let ModelInfo { provider, model } = step.info();
        if !self.allow_unpriced && self.prices.get(provider, model).is_none() {
            let problem = format!(
                "the model `{provider}/{model}` has no price; add one to the prices, or let such models pass with \
                 `allow_unpriced`"
            );
            return Err(Error::Middleware { name: self.name().into(), problem });
        }
        if let Some(most) = self.max_cost {
            let ask = |step: &ModelStep, others: &[Spending], own: &Spending| {
                let sum = |rows: &[Spending]| self.prices.cost(rows);
                let (spent, expected) =
                    (sum(&step.spent()), sum(others) + sum(std::slice::from_ref(own)));
                let room = spent < most && spent + sum(&step.at_least()) <= most;
                // If a price or the limit is NaN, the comparison has no result, and the call is
                // refused.
                match (spent + expected).partial_cmp(&most) {
                    Some(Ordering::Less | Ordering::Equal) if room => Verdict::Go,
                    Some(Ordering::Greater) if room => Verdict::Wait,
                    _ => Verdict::Refuse,
                }
            };
            if !self.reservations.admit(step, ask).await {
                let message = format!("Cost budget of {most} exceeded.");
                return Err(Error::BudgetExceeded { budget: self.name().into(), message });
            }
        }
        Ok(Flow::Continue)
    }

    async fn after_model(&self, step: &mut ModelStep, response: &mut ModelResponse) -> Result<()> {
        let info = step.info().clone();
        let cost =
            self.prices.get(&info.provider, &info.model).map(|price| price.of(&response.usage));
        let amount = cost.unwrap_or(0.0);
        *self
            .totals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(step.agent().to_owned())
            .or_default() += amount;
        if self.sinks.is_empty() {
            return Ok(());
        }
        // The journal does not contain this call yet, so its amount is added below.
        let spent = step.spent();
        let own: Vec<Spending> =
            spent.iter().filter(|row| *row.agent == *step.agent()).cloned().collect();
        let cost = Cost {
            run_id: step.context().run_id().clone(),
            agent: step.agent().into(),
            provider: info.provider,
            model: info.model,
            usage: response.usage.clone(),
            cost,
            agent_total: self.prices.cost(&own) + amount,
            run_total: self.prices.cost(&spent) + amount,
        };
        self.sinks.iter().for_each(|sink| sink.spent(&cost));
        Ok(())
    }
}

impl fmt::Debug for CostTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CostTracker")
            .field("prices", &self.prices)
            .field("max_cost", &self.max_cost)
            .field("allow_unpriced", &self.allow_unpriced)
            .finish_non_exhaustive()
    }
}
