//! What a run has spent on models, from its records alone: by its own agents and by all that it started.
//!
//! It decides nothing; whoever bounds a run asks it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::EventKind;
use crate::model::Usage;
use crate::path::StepPath;

/// What one agent of a run has spent on one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spending {
    /// The agent's name.
    pub agent: Arc<str>,
    /// The wire format or maker.
    pub provider: Arc<str>,
    /// The model's name.
    pub model: Arc<str>,
    /// How many calls were begun, failed ones included; an answer that middleware gave is none.
    pub calls: u32,
    /// The tokens of all answers.
    pub usage: Usage,
}

#[derive(Default)]
pub(crate) struct Ledger {
    rows: Vec<Spending>,
    agents: HashMap<StepPath, Arc<str>>,
    /// The calls that are going on, with their row.
    open: HashMap<StepPath, usize>,
    /// The tokens of the last call of each agent.
    last: HashMap<StepPath, u64>,
    /// The tokens of all calls of each agent.
    by_agent: HashMap<StepPath, u64>,
}

impl Ledger {
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        match kind {
            EventKind::RunStarted(started) => {
                if let Some(agent) = started.agent() {
                    self.agents.insert(path.clone(), Arc::clone(&agent.name));
                }
            }
            EventKind::AgentStarted(agent) => {
                self.agents.insert(path.clone(), Arc::clone(&agent.name));
            }
            EventKind::ModelStarted { provider, model } => {
                let base = path.parent().unwrap_or_else(StepPath::root);
                let agent = self.agents.get(&base).cloned().unwrap_or_else(|| "agent".into());
                let row = self.row(&agent, provider, model);
                self.rows[row].calls += 1;
                self.open.insert(path.clone(), row);
            }
            EventKind::ModelCompleted(response) => {
                let Some(row) = self.open.remove(path) else { return };
                let Spending { calls, usage, .. } = &mut self.rows[row];
                usage.add(&response.usage);
                if response.answered_by.is_some() {
                    *calls = calls.saturating_sub(1);
                } else {
                    let base = path.parent().unwrap_or_else(StepPath::root);
                    let tokens = response.usage.input_tokens + response.usage.output_tokens;
                    *self.by_agent.entry(base.clone()).or_default() += tokens;
                    self.last.insert(base, tokens);
                }
            }
            EventKind::ModelFailed { .. } | EventKind::ModelRetrying { .. } => {
                self.open.remove(path);
            }
            EventKind::RunResumed { recovered: true, .. } => self.open.clear(),
            EventKind::RunSpent(rows) => {
                self.rows = rows.to_vec();
                self.open.clear();
            }
            _ => {}
        }
    }

    fn row(&mut self, agent: &Arc<str>, provider: &Arc<str>, model: &Arc<str>) -> usize {
        let same = |row: &Spending| row.agent == *agent && row.provider == *provider && row.model == *model;
        self.rows.iter().position(same).unwrap_or_else(|| {
            let (agent, provider, model) = (Arc::clone(agent), Arc::clone(provider), Arc::clone(model));
            self.rows.push(Spending { agent, provider, model, calls: 0, usage: Usage::default() });
            self.rows.len() - 1
        })
    }

    pub(crate) fn rows(&self) -> &[Spending] {
        &self.rows
    }

    /// The tokens that the agent at a path has spent.
    pub(crate) fn tokens_of(&self, base: &StepPath) -> u64 {
        self.by_agent.get(base).copied().unwrap_or(0)
    }

    /// What the calls that are going on cost at least.
    pub(crate) fn going_on(&self) -> Vec<Spending> {
        let open = self.open.iter().map(|(path, row)| Spending {
            calls: 1,
            usage: self.least(&path.parent().unwrap_or_else(StepPath::root)),
            ..self.rows[*row].clone()
        });
        open.collect()
    }

    /// What the next call of the agent at a path costs at least: a conversation only grows, so it reads what the last
    /// one read and wrote.
    pub(crate) fn least(&self, base: &StepPath) -> Usage {
        let tokens = self.last.get(base).copied().unwrap_or(0);
        Usage { cached_tokens: Some(tokens), ..Usage::new(tokens, 0) }
    }
}
