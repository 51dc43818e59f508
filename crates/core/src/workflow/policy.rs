//! `NodePolicy`: retries, time-out, approval and the effect of a failure of a node. The workflow
//! machine applies it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::caller::Caller;
use crate::error::{Failure, FailureClass};
use crate::on_timeout::OnTimeout;
use crate::tool::NodeQuestion;
use crate::tool_definition::ToolPolicy;

/// Number and timing of retries after a failure of a node.
///
/// The default is one attempt without retries.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::workflow::RetryPolicy;
///
/// let retry = RetryPolicy::retries(3).backoff(Duration::from_secs(1)).growing(2.0, Duration::from_secs(10));
/// assert_eq!(retry.max_attempts, 4);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[serde(deny_unknown_fields, expecting = "a policy of retries, such as {\"max_attempts\": 3}")]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first one. 0 counts as 1.
    pub max_attempts: u32,
    /// Delay before the second attempt, in milliseconds. Default: 500.
    pub backoff_ms: u64,
    /// Factor between one delay and the next. Default: 2. A factor below 1 counts as 1.
    pub backoff_multiplier: f64,
    /// Maximum delay, in milliseconds. Default: 60,000.
    pub max_backoff_ms: u64,
    /// Classes of failures that are retried. If empty (the default), all failures are retried
    /// except wrong input, missing permission and cancellation. A failure that no attempt can
    /// change is never retried; see [`Failure::may_pass`].
    pub retry_on: Vec<FailureClass>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            backoff_ms: 500,
            backoff_multiplier: 2.0,
            max_backoff_ms: 60_000,
            retry_on: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// Creates a policy with this number of attempts after the first one.
    pub fn retries(retries: u32) -> Self {
        Self { max_attempts: retries.saturating_add(1), ..Self::default() }
    }

    /// Sets the delay before the second attempt, in whole milliseconds.
    #[must_use]
    pub fn backoff(mut self, pause: Duration) -> Self {
        self.backoff_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Sets the factor between one delay and the next, and the maximum delay. A factor below 1
    /// counts as 1.
    #[must_use]
    pub fn growing(mut self, factor: f64, longest: Duration) -> Self {
        self.backoff_multiplier = factor;
        self.max_backoff_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Sets the classes of failures that are retried.
    #[must_use]
    pub fn retry_on(mut self, classes: impl IntoIterator<Item = FailureClass>) -> Self {
        self.retry_on = classes.into_iter().collect();
        self
    }

    /// Returns the delay before the next attempt, or `None` if the failed attempt was the last one.
    pub(super) fn delay(&self, failures: u32, failure: &Failure) -> Option<Duration> {
        if failures >= self.max_attempts.max(1) || !self.is_worth_another(failure) {
            return None;
        }
        // The first delay is `backoff_ms` itself.
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let factor = self.backoff_multiplier.max(1.0).powi(exponent);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a pause of 2^53 ms and its neighbour are the same pause"
        )]
        let delay = (self.backoff_ms as f64 * factor).min(self.max_backoff_ms as f64);
        Some(Duration::from_secs_f64(delay / 1000.0))
    }

    fn is_worth_another(&self, failure: &Failure) -> bool {
        if self.retry_on.is_empty() {
            return failure.is_worth_retry();
        }
        let class = failure.kind.class();
        let is_wanted = |wanted: &FailureClass| *wanted == class || *wanted == FailureClass::Any;
        failure.may_pass() && self.retry_on.iter().any(is_wanted)
    }
}

/// Effect on the run if a node has failed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnError {
    /// The run fails. The [`StopPolicy`] determines how its other nodes end.
    #[default]
    Fail,
    /// The node counts as skipped. Nodes that read its output are skipped too, and all other nodes
    /// continue.
    Skip,
}

/// Reaction of the other nodes if a node has failed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopPolicy {
    /// The other nodes are cancelled, and the run fails at once. In a `#[workflow]`, only the nodes
    /// written below the failed node are cancelled. Nodes above it run to their end first, and the
    /// run fails with the first failure in written order.
    #[default]
    FailFast,
    /// Nodes that do not depend on the failed node run to their end. Then the run fails.
    BestEffort,
}

/// Policy of a node. By default, a node has one attempt and no time limit, and its failure fails
/// the run.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::workflow::{NodePolicy, OnError, RetryPolicy};
///
/// let policy = NodePolicy::default()
///     .retry_policy(RetryPolicy::retries(2))
///     .timeout(Duration::from_secs(30))
///     .on_error(OnError::Skip);
/// assert_eq!(policy.timeout_ms, Some(30_000));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[serde(deny_unknown_fields, expecting = "a node's policy, such as {\"timeout_ms\": 1000}")]
#[non_exhaustive]
pub struct NodePolicy {
    /// Retries after a failed attempt.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: RetryPolicy,
    /// Maximum duration of one attempt, in milliseconds. For a gate, the maximum wait for the
    /// answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Effect of a failure on the run.
    #[serde(skip_serializing_if = "is_default")]
    pub on_error: OnError,
    /// Question that a person must approve before the node begins. The question shows the values
    /// that the node reads. For a node that is data, the text is a [template](crate::template). For
    /// other nodes, it is a constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<String>,
    /// Maximum wait for the answer to that question, in milliseconds. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve_timeout_ms: Option<u64>,
    /// Reaction if a question is not answered in time: within `approve_timeout_ms`, or within
    /// `timeout_ms` for a gate.
    #[serde(skip_serializing_if = "is_default")]
    pub on_timeout: OnTimeout,
    /// Maximum number of items of a map, or branches of a race, that run at the same time. Default:
    /// all of them, within the limit of the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// `true` if the node may run again after its process ended while the node was running.
    /// Default: as declared by the tool that the node calls, and `true` for other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeatable: Option<bool>,
    /// `true` if the node only observes. It sees the [state](crate::state). A change of the state,
    /// an artifact or a message of a mailbox in the node, or in a function that it calls, is an
    /// error. Default: `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub tap: bool,
    /// Roles that allow the caller of the run to run this node. If this and `allowed_users` are
    /// empty (the default), every caller is allowed. Otherwise one of the roles, or being one of
    /// the users, suffices. The node fails with the kind
    /// [`Unauthorized`](crate::error::FailureKind::Unauthorized) if the caller is not allowed, and in a run
    /// without a caller. A question that the node asks, as a gate or before it begins, is answered by
    /// these roles and users only.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_roles: BTreeSet<Arc<str>>,
    /// Names of callers that may run the node; see `allowed_roles`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_users: BTreeSet<Arc<str>>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl NodePolicy {
    /// Sets the number of attempts after a failed first attempt.
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

    /// Limits the duration of each attempt. For a gate, limits the wait for the answer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Sets the effect of a failure on the run.
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// Asks a person for approval before the node begins.
    #[must_use]
    pub fn approve(mut self, question: impl Into<String>) -> Self {
        self.approve = Some(question.into());
        self
    }

    /// Limits the wait for the approval.
    #[must_use]
    pub fn approve_timeout(mut self, timeout: Duration) -> Self {
        self.approve_timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Sets the reaction if a question is not answered in time.
    #[must_use]
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.on_timeout = on_timeout;
        self
    }

    /// Limits the number of items of a map, or branches of a race, that run at the same time.
    #[must_use]
    pub fn concurrency(mut self, at_once: u32) -> Self {
        self.concurrency = Some(at_once);
        self
    }

    /// Sets whether the node may run again if its process ended while the node was running.
    #[must_use]
    pub fn repeatable(mut self, repeatable: bool) -> Self {
        self.repeatable = Some(repeatable);
        self
    }

    /// Declares that the node only observes: it sees the state and does not change it.
    #[must_use]
    pub fn tap(mut self) -> Self {
        self.tap = true;
        self
    }

    /// Allows only callers with one of these roles to run the node, and the
    /// [users](Self::allowed_users).
    #[must_use]
    pub fn allowed_roles<S: Into<Arc<str>>>(mut self, roles: impl IntoIterator<Item = S>) -> Self {
        self.allowed_roles.extend(roles.into_iter().map(Into::into));
        self
    }

    /// Allows only callers with one of these names to run the node, and callers with one of the
    /// [roles](Self::allowed_roles).
    #[must_use]
    pub fn allowed_users<S: Into<Arc<str>>>(mut self, users: impl IntoIterator<Item = S>) -> Self {
        self.allowed_users.extend(users.into_iter().map(Into::into));
        self
    }

    /// Returns `true` if the caller of a run may run the node.
    pub(super) fn allows(&self, caller: Option<&Caller>) -> bool {
        if self.allowed_roles.is_empty() && self.allowed_users.is_empty() {
            return true;
        }
        caller.is_some_and(|caller| caller.is_one_of(&self.allowed_roles, &self.allowed_users))
    }

    pub(super) fn timeout_duration(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

/// Applies the settings of a tool where the policy of the node leaves them open.
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
    inherit_tool_question(policy, tool, call);
}

/// Applies the tool's settings for the question about its call where the node leaves them open.
pub(super) fn inherit_tool_question(policy: &mut NodePolicy, tool: &ToolPolicy, call: &str) {
    if tool.approve {
        policy.approve.get_or_insert_with(|| default_question(call));
        if policy.approve_timeout_ms.is_none()
            && let Some(timeout) = tool.approve_timeout
        {
            // The reaction belongs to the time limit, so both come from the tool.
            *policy =
                std::mem::take(policy).approve_timeout(timeout).on_timeout(tool.on_timeout.clone());
        }
    }
}

/// The default question of a node that consists of a call.
fn default_question(call: &str) -> String {
    format!("call `{call}`?")
}

/// Returns the settings for the question of the call that a node consists of.
pub(super) fn question_of_call(
    policy: &mut NodePolicy,
    tool: &ToolPolicy,
    call: &str,
) -> NodeQuestion {
    // The default text does not show the arguments of the call, so the call makes its own.
    // Described graphs contain it too.
    let text = policy.approve.clone().filter(|text| *text != default_question(call));
    inherit_tool_question(policy, tool, call);
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
        let pauses: Vec<_> =
            (1..=4).map(|failures| policy.delay(failures, &failure("timeout"))).collect();
        let millis = |n| Some(Duration::from_millis(n));
        assert_eq!(pauses, [millis(500), millis(1000), millis(1500), None]);
        assert_eq!(RetryPolicy::default().delay(1, &failure("timeout")), None);
    }

    #[test]
    fn what_is_worth_another_attempt() {
        let all = RetryPolicy::retries(1);
        for (kind, worth) in
            [("timeout", true), ("error", true), ("invalid_arguments", false), ("denied", false)]
        {
            assert_eq!(all.delay(1, &failure(kind)).is_some(), worth, "{kind}");
        }
        let only =
            RetryPolicy { retry_on: vec![FailureClass::RateLimit], ..RetryPolicy::retries(1) };
        assert!(only.delay(1, &failure("rate_limited")).is_some());
        assert!(only.delay(1, &failure("timeout")).is_none());
        let any = RetryPolicy { retry_on: vec![FailureClass::Any], ..RetryPolicy::retries(1) };
        for (kind, worth) in
            [("auth", true), ("budget_exceeded", false), ("denied", false), ("cancelled", false)]
        {
            assert_eq!(any.delay(1, &failure(kind)).is_some(), worth, "{kind}");
        }
    }
}
