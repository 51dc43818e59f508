//! `NodePolicy`: retries, time-out, approval and reaction to a failure of a node. The machine applies it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Failure, FailureClass};
use crate::on_timeout::OnTimeout;
use crate::tool::NodeQuestion;
use crate::tool_definition::ToolPolicy;

/// How often and when a failed node is tried again.
///
/// The default is one attempt: nothing is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[serde(deny_unknown_fields, expecting = "a policy of retries, such as {\"max_attempts\": 3}")]
#[non_exhaustive]
pub struct RetryPolicy {
    /// The most attempts, the first one included; 0 counts as 1.
    pub max_attempts: u32,
    /// The pause before the second attempt, in milliseconds. Default: 500.
    pub backoff_ms: u64,
    /// What each further pause is multiplied by. Default: 2.
    pub backoff_multiplier: f64,
    /// The longest pause, in milliseconds. Default: 60,000.
    pub max_backoff_ms: u64,
    /// Which failures are worth another attempt. Empty, the default: all but wrong input, missing permission and
    /// cancellation. A failure that no attempt can change is never worth one, whatever is said here; see
    /// [`Failure::may_pass`].
    pub retry_on: Vec<FailureClass>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 1, backoff_ms: 500, backoff_multiplier: 2.0, max_backoff_ms: 60_000, retry_on: Vec::new() }
    }
}

impl RetryPolicy {
    /// So many attempts after the first one.
    pub fn retries(retries: u32) -> Self {
        Self { max_attempts: retries.saturating_add(1), ..Self::default() }
    }

    /// The pause before the second attempt, in whole milliseconds.
    #[must_use]
    pub fn backoff(mut self, pause: Duration) -> Self {
        self.backoff_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// What each further pause is multiplied by, and the longest pause. A factor below 1 counts as 1.
    #[must_use]
    pub fn growing(mut self, factor: f64, longest: Duration) -> Self {
        self.backoff_multiplier = factor;
        self.max_backoff_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Which failures are worth another attempt.
    #[must_use]
    pub fn retry_on(mut self, classes: impl IntoIterator<Item = FailureClass>) -> Self {
        self.retry_on = classes.into_iter().collect();
        self
    }

    /// How long to wait after a failed attempt; `None` when it was the last one or is not worth another.
    pub(super) fn delay(&self, failures: u32, failure: &Failure) -> Option<Duration> {
        if failures >= self.max_attempts.max(1) || !self.is_worth_another(failure) {
            return None;
        }
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let factor = self.backoff_multiplier.max(1.0).powi(exponent);
        #[expect(clippy::cast_precision_loss, reason = "a pause of 2^53 ms and its neighbour are the same pause")]
        let delay = (self.backoff_ms as f64 * factor).min(self.max_backoff_ms as f64);
        Some(Duration::from_secs_f64(delay / 1000.0))
    }

    fn is_worth_another(&self, failure: &Failure) -> bool {
        if !failure.may_pass() {
            return false;
        }
        let class = failure.kind.class();
        if self.retry_on.is_empty() {
            return !matches!(class, FailureClass::Validation | FailureClass::Permission | FailureClass::Cancelled);
        }
        self.retry_on.iter().any(|wanted| *wanted == class || *wanted == FailureClass::Any)
    }
}

/// What a node that has failed for good means for the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnError {
    /// The run fails; how its other nodes end is the [`StopPolicy`]'s.
    #[default]
    Fail,
    /// The node counts as skipped: nodes that read its output are skipped too, the rest continues.
    Skip,
}

/// What the other nodes do when one has failed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopPolicy {
    /// They are cancelled, and the run fails at once. In a `#[workflow]`, those written below the failed node are; those
    /// above it go to their end first, and the first failure in written order is the run's.
    #[default]
    FailFast,
    /// Those that do not depend on it run to their end; then the run fails.
    BestEffort,
}

/// What is done about one node. The default tries once, without a time limit, and fails the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[serde(deny_unknown_fields, expecting = "a node's policy, such as {\"timeout_ms\": 1000}")]
#[non_exhaustive]
pub struct NodePolicy {
    /// When a failed attempt is followed by another.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: RetryPolicy,
    /// The longest one attempt may take, in milliseconds; for a gate, how long the answer is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What its failure means for the run.
    #[serde(skip_serializing_if = "is_default")]
    pub on_error: OnError,
    /// A question that a person must grant before the node begins. It is asked with the values that the node reads. Of a node
    /// that is data it is a [template](crate::template), and of others a constant text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<String>,
    /// How long the answer to that question is waited for, in milliseconds; without it, for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve_timeout_ms: Option<u64>,
    /// What happens when nobody has answered in time: within `approve_timeout_ms`, or within `timeout_ms` of a gate.
    #[serde(skip_serializing_if = "is_default")]
    pub on_timeout: OnTimeout,
    /// The most items of a map, or branches of a race, that run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Whether the node may be run again when its process ended in the middle of it. Default: a tool says so itself;
    /// everything else may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeatable: Option<bool>,
    /// Whether it observes: it sees the [state](crate::state), and a change of the state, an artifact or a message of a
    /// mailbox in it, or in what it calls, is an error. Default: `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub tap: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl NodePolicy {
    /// Tries again so many times after a failed first attempt.
    #[must_use]
    pub fn retry(mut self, retries: u32) -> Self {
        self.retry.max_attempts = retries.saturating_add(1);
        self
    }

    /// Sets the whole retry policy.
    #[must_use]
    pub fn retry_policy(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Bounds each attempt; of a gate, the waiting.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Sets what a failure means for the run.
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// Asks a person before the node begins.
    #[must_use]
    pub fn approve(mut self, question: impl Into<String>) -> Self {
        self.approve = Some(question.into());
        self
    }

    /// Bounds how long the answer to the question before the node is waited for.
    #[must_use]
    pub fn approve_timeout(mut self, timeout: Duration) -> Self {
        self.approve_timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Sets what happens when nobody has answered in time.
    #[must_use]
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.on_timeout = on_timeout;
        self
    }

    /// Bounds how many items of a map run at once.
    #[must_use]
    pub fn concurrency(mut self, at_once: u32) -> Self {
        self.concurrency = Some(at_once);
        self
    }

    /// Says whether the node may be run again when its process ended in the middle of it.
    #[must_use]
    pub fn repeatable(mut self, repeatable: bool) -> Self {
        self.repeatable = Some(repeatable);
        self
    }

    /// Says that the node observes: it sees the state and changes nothing of it.
    #[must_use]
    pub fn tap(mut self) -> Self {
        self.tap = true;
        self
    }

    pub(super) fn timeout_of(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

/// What a tool says of itself counts where the node says nothing.
pub(super) fn take_over(policy: &mut NodePolicy, tool: &ToolPolicy, call: &str) {
    policy.repeatable.get_or_insert(tool.is_repeatable());
    if policy.timeout_ms.is_none()
        && let Some(timeout) = tool.timeout
    {
        *policy = std::mem::take(policy).timeout(timeout);
    }
    if policy.retry == RetryPolicy::default() && tool.retry > 0 {
        *policy = std::mem::take(policy).retry(tool.retry);
    }
    take_over_question(policy, tool, call);
}

/// Applies the tool's settings for the question about its call where the node leaves them open.
pub(super) fn take_over_question(policy: &mut NodePolicy, tool: &ToolPolicy, call: &str) {
    if tool.approve {
        policy.approve.get_or_insert_with(|| usual_question(call));
        if policy.approve_timeout_ms.is_none()
            && let Some(timeout) = tool.approve_timeout
        {
            *policy = std::mem::take(policy).approve_timeout(timeout).on_timeout(tool.on_timeout.clone());
        }
    }
}

/// The default question of a node that consists of a call.
fn usual_question(call: &str) -> String {
    format!("call `{call}`?")
}

/// Returns the settings for the question of the call that a node consists of.
pub(super) fn question_of_call(policy: &mut NodePolicy, tool: &ToolPolicy, call: &str) -> NodeQuestion {
    // The default text does not show the arguments of the call, so the call makes its own. Described graphs contain it too.
    let text = policy.approve.clone().filter(|text| *text != usual_question(call));
    take_over_question(policy, tool, call);
    NodeQuestion {
        text: text.map(Into::into),
        timeout_ms: policy.approve_timeout_ms,
        on_timeout: policy.on_timeout.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: &str) -> Failure {
        Failure::new(kind, "it failed")
    }

    #[test]
    fn pauses_grow_and_end() {
        let policy = RetryPolicy { max_backoff_ms: 1500, ..RetryPolicy::retries(3) };
        let pauses: Vec<_> = (1..=4).map(|failures| policy.delay(failures, &failure("timeout"))).collect();
        let millis = |n| Some(Duration::from_millis(n));
        assert_eq!(pauses, [millis(500), millis(1000), millis(1500), None]);
        assert_eq!(RetryPolicy::default().delay(1, &failure("timeout")), None);
    }

    #[test]
    fn what_is_worth_another_attempt() {
        let all = RetryPolicy::retries(1);
        for (kind, worth) in [("timeout", true), ("error", true), ("invalid_arguments", false), ("denied", false)] {
            assert_eq!(all.delay(1, &failure(kind)).is_some(), worth, "{kind}");
        }
        let only = RetryPolicy { retry_on: vec![FailureClass::RateLimit], ..RetryPolicy::retries(1) };
        assert!(only.delay(1, &failure("rate_limited")).is_some());
        assert!(only.delay(1, &failure("timeout")).is_none());
        let any = RetryPolicy { retry_on: vec![FailureClass::Any], ..RetryPolicy::retries(1) };
        for (kind, worth) in [("auth", true), ("budget_exceeded", false), ("denied", false), ("cancelled", false)] {
            assert_eq!(any.delay(1, &failure(kind)).is_some(), worth, "{kind}");
        }
    }
}
