//! Counts the model usage of runs from their records, by agent and in total, including nested
//! agents. Budgets use it.

use std::collections::HashMap;
use std::sync::Arc;

use super::read::read_events;
use crate::event::{Event, EventKind, RunId, Shape, Spending, Subject};
use crate::model::Usage;
use crate::path::StepPath;
use crate::store::{RunFilter, Store, StoreError, StoreErrorKind};

/// Returns the token usage of all runs of a store that match a filter, excluding the run `except`.
///
/// # Errors
/// Fails if the runs cannot be listed, or a required journal cannot be read.
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
            None => spending_of_run(store, &run.run_id)
                .await?
                .iter()
                .for_each(|row| sum.add(&row.usage)),
        }
    }
    Ok(sum)
}

/// Returns the spending of all runs of a store that match a filter: one row per agent and model, in
/// the order of their first occurrence, newest run first.
///
/// # Errors
/// Fails if the runs cannot be listed, or a journal cannot be read.
pub(crate) async fn spending_of_runs(
    store: &Arc<dyn Store>,
    filter: RunFilter,
) -> Result<Vec<Spending>, StoreError> {
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

/// Reads the spending of a run from its journal. Returns no rows if the run was deleted meanwhile.
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
    /// Tokens of the last call of each agent.
    last: HashMap<StepPath, u64>,
    /// Tokens of all calls of each agent.
    by_agent: HashMap<StepPath, u64>,
    /// Tokens of the longest response.
    longest_answer: u64,
}

impl Ledger {
    /// Counts the spending in these events.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut ledger = Self::default();
        events.iter().for_each(|event| ledger.apply(&event.path, &event.kind));
        ledger
    }

    /// Returns the event that replaces the calls in a snapshot; `None` if there was no call.
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
                // A response that middleware supplied is not a call.
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
            // The calls of the previous process ended with it.
            EventKind::RunResumed { recovered: true, .. } => self.open.clear(),
            // The calls that are running at the snapshot are among its events, so they stay open.
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

    /// Returns the row of a call, adding it if needed.
    fn row(&mut self, call: &Spending) -> &mut Spending {
        let same = |row: &Spending| {
            row.agent == call.agent && row.provider == call.provider && row.model == call.model
        };
        let at = self.rows.iter().position(same).unwrap_or_else(|| {
            self.rows.push(Spending { calls: 0, usage: Usage::default(), ..call.clone() });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    pub(crate) fn rows(&self) -> &[Spending] {
        &self.rows
    }

    /// Returns the tokens that the agent at a path has spent.
    pub(crate) fn tokens_of(&self, base: &StepPath) -> u64 {
        self.by_agent.get(base).copied().unwrap_or(0)
    }

    /// Returns the tokens of the last call of the agent at a path.
    pub(crate) fn last_tokens_of(&self, base: &StepPath) -> u64 {
        self.last.get(base).copied().unwrap_or(0)
    }

    /// Returns the tokens of the longest response of the run, as far back as the journal is
    /// available.
    pub(crate) fn longest_answer(&self) -> u64 {
        self.longest_answer
    }

    /// Returns the running calls with their minimum usage.
    pub(crate) fn open_calls(&self) -> Vec<Spending> {
        let open = self.open.iter().map(|(path, call)| Spending {
            usage: self.least(&path.parent().unwrap_or_else(StepPath::root)),
            ..call.clone()
        });
        open.collect()
    }

    /// Returns the minimum usage of the next call of the agent at a path. A conversation only
    /// grows, so the call reads at least the tokens that the last call read and wrote.
    pub(crate) fn least(&self, base: &StepPath) -> Usage {
        let tokens = self.last_tokens_of(base);
        Usage { cached_tokens: Some(tokens), ..Usage::new(tokens, 0) }
    }
}
