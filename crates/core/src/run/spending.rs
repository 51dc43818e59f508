//! The spending of runs on models, counted from their records: by each agent and in total, nested agents included.
//!
//! It decides nothing; budgets ask it.

use std::collections::HashMap;
use std::sync::Arc;

use super::read::read_events;
use crate::event::{Event, EventKind, RunId, Shape, Spending, Subject};
use crate::model::Usage;
use crate::path::StepPath;
use crate::store::{RunFilter, Store, StoreError, StoreErrorKind};

/// Returns the tokens of all runs of a store that a filter admits, but for one of them.
///
/// # Errors
/// When the runs cannot be listed, or the journal of one is needed and cannot be read.
pub(crate) async fn usage_of_runs(
    store: &Arc<dyn Store>,
    filter: RunFilter,
    except: Option<&RunId>,
) -> Result<Usage, StoreError> {
    let mut sum = Usage::default();
    for run in store.list(filter).await? {
        if except == Some(&run.run_id) {
            continue;
        }
        match run.usage {
            Some(usage) => sum.add(&usage),
            None => spending_of_run(store, &run.run_id).await?.iter().for_each(|row| sum.add(&row.usage)),
        }
    }
    Ok(sum)
}

/// Returns what all runs of a store that a filter admits have spent: a row for each agent and model, in the order in which
/// the newest run has them first.
///
/// # Errors
/// When the runs cannot be listed, or a journal cannot be read.
pub(crate) async fn spending_of_runs(store: &Arc<dyn Store>, filter: RunFilter) -> Result<Vec<Spending>, StoreError> {
    let mut sum = Ledger::default();
    for run in store.list(filter).await? {
        for spent in spending_of_run(store, &run.run_id).await? {
            let row = sum.row(&spent);
            row.calls = row.calls.saturating_add(spent.calls);
            row.usage.add(&spent.usage);
        }
    }
    Ok(sum.rows)
}

/// Reads the spending of a run from its journal. A run that was deleted meanwhile has none.
async fn spending_of_run(store: &Arc<dyn Store>, run: &RunId) -> Result<Vec<Spending>, StoreError> {
    match read_events(store, run, 0).await {
        Ok(events) => Ok(Ledger::of(&events).rows),
        Err(error) if error.kind() == StoreErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[derive(Default)]
pub(crate) struct Ledger {
    rows: Vec<Spending>,
    agents: HashMap<StepPath, Arc<str>>,
    /// The running calls, each as a row without tokens.
    open: HashMap<StepPath, Spending>,
    /// The tokens of the last call of each agent.
    last: HashMap<StepPath, u64>,
    /// The tokens of all calls of each agent.
    by_agent: HashMap<StepPath, u64>,
    /// The most tokens that an answer had.
    longest_answer: u64,
}

impl Ledger {
    /// What these events say.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut ledger = Self::default();
        events.iter().for_each(|event| ledger.apply(&event.path, &event.kind));
        ledger
    }

    /// What was spent, in an event that stands for the calls in a snapshot; `None` when nothing was.
    pub(crate) fn spent(self) -> Option<EventKind> {
        (!self.rows.is_empty()).then(|| EventKind::RunSpent(Arc::new(self.rows)))
    }

    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        if let Some(agent) = kind.agent_started() {
            self.agents.insert(path.clone(), Arc::clone(&agent.name));
        }
        match kind {
            EventKind::ModelStarted { provider, model } => {
                let base = path.parent().unwrap_or_else(StepPath::root);
                let agent = self.agents.get(&base).cloned().unwrap_or_else(|| "agent".into());
                let (provider, model) = (Arc::clone(provider), Arc::clone(model));
                let call = Spending { agent, provider, model, calls: 1, usage: Usage::default() };
                let row = self.row(&call);
                row.calls = row.calls.saturating_add(1);
                self.open.insert(path.clone(), call);
            }
            EventKind::ModelCompleted(response) => {
                let Some(call) = self.open.remove(path) else { return };
                let Spending { calls, usage, .. } = self.row(&call);
                usage.add(&response.usage);
                if response.answered_by.is_some() {
                    *calls = calls.saturating_sub(1);
                } else {
                    let base = path.parent().unwrap_or_else(StepPath::root);
                    self.longest_answer = self.longest_answer.max(response.usage.output_tokens);
                    let tokens = response.usage.total_tokens();
                    let spent = self.by_agent.entry(base.clone()).or_default();
                    *spent = spent.saturating_add(tokens);
                    self.last.insert(base, tokens);
                }
            }
            EventKind::RunResumed { recovered: true, .. } => self.open.clear(),
            // A snapshot keeps the running calls, so they stay open.
            EventKind::RunSpent(rows) => self.rows = rows.to_vec(),
            EventKind::RunAdvanced(advanced) => {
                self.by_agent.insert(path.clone(), advanced.tokens);
                self.last.insert(path.clone(), advanced.last_tokens);
                self.longest_answer = self.longest_answer.max(advanced.longest_answer);
            }
            kind => {
                let Shape { subject, edge, .. } = kind.shape();
                if subject == Subject::Model && edge.ends_attempt() {
                    self.open.remove(path);
                }
            }
        }
    }

    /// The row that a call belongs to.
    fn row(&mut self, call: &Spending) -> &mut Spending {
        let same = |row: &Spending| row.agent == call.agent && row.provider == call.provider && row.model == call.model;
        let at = self.rows.iter().position(same).unwrap_or_else(|| {
            self.rows.push(Spending { calls: 0, usage: Usage::default(), ..call.clone() });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    pub(crate) fn rows(&self) -> &[Spending] {
        &self.rows
    }

    /// The tokens that the agent at a path has spent.
    pub(crate) fn tokens_of(&self, base: &StepPath) -> u64 {
        self.by_agent.get(base).copied().unwrap_or(0)
    }

    /// The tokens of the last call of the agent at a path.
    pub(crate) fn last_tokens_of(&self, base: &StepPath) -> u64 {
        self.last.get(base).copied().unwrap_or(0)
    }

    /// The most tokens that an answer of the run had, as far as its journal still says.
    pub(crate) fn longest_answer(&self) -> u64 {
        self.longest_answer
    }

    /// The least that the running calls cost.
    pub(crate) fn open_calls(&self) -> Vec<Spending> {
        let open = self.open.iter().map(|(path, call)| Spending {
            usage: self.least(&path.parent().unwrap_or_else(StepPath::root)),
            ..call.clone()
        });
        open.collect()
    }

    /// What the next call of the agent at a path costs at least: a conversation only grows, so it reads what the last
    /// one read and wrote.
    pub(crate) fn least(&self, base: &StepPath) -> Usage {
        let tokens = self.last_tokens_of(base);
        Usage { cached_tokens: Some(tokens), ..Usage::new(tokens, 0) }
    }
}
