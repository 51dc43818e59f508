//! Mocks replace tools, agents, workflows and people by name, check their calls and collect
//! mismatches.
//!
//! [`Mocks`] contains the expected calls and implements the runtime's `Replacement` trait. `calls`
//! matches calls to tools, agents and workflows with [`Call`], `questions` matches questions to
//! persons with [`ExpectedQuestion`], and `ready` produces the answers.
//!
//! Only the named callees are replaced: the scheduler, the policies and everything around a
//! replaced call are real.

mod calls;
mod questions;
mod ready;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentflow::__private::watch_errors;
use agentflow::async_trait;
use agentflow::event::ApprovalRequest;
use agentflow::path::StepPath;
use agentflow::runtime::RuntimeBuilder;
use agentflow::tool::{
    ReplacedCall, ReplacedError, ReplacedKind, Replacement, ToolError, ToolOutput,
};
use agentflow::value::Encoded;
use serde_json::Value;

pub use self::calls::{Call, Calls};
pub use self::questions::ExpectedQuestion;
use self::ready::Ready;
use crate::run_error::panic_when_dropped;
use crate::time::test_runtime;

/// Mocks of tools, agents, workflows and people by name, for all runs of a runtime.
///
/// Each mock has a list of expected [`Call`]s in order. It answers every call to the named callee:
/// by an agent, in a workflow step, in a function that a step calls, or in a workflow that is a
/// tool of an agent. Scopes, approvals, time-outs, retries and the journal are real.
///
/// A test fails on:
/// - a call that is not expected or has other arguments;
/// - an expected call that was never made;
/// - an unexpected question to a person, if persons are mocked.
///
/// The first also fails the call in the run, and the third cancels the run. All are recorded:
/// [`finish`](Self::finish) panics with all of them, and so does dropping the last clone. Drop the
/// last clone on the thread of the test or call `finish`.
///
/// If a step calls a function with its own error type, use [`Call::fails_with`] to return an error
/// of this type. A string with [`Call::fails`] is enough if the type implements
/// `From<agentflow::Error>`.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::serde_json::json;
/// use agentflow_testing::{Call, Mocks};
///
/// /// Give the money back.
/// #[tool(retry = 1)]
/// async fn refund(order: u32, cents: u32) -> Result<String> {
///     unreachable!("the bank is not called in a test: {order} {cents}")
/// }
///
/// #[workflow]
/// async fn complain(order: u32) -> Result<String> {
///     let receipt = refund(order, 500).await?;
///     Ok(receipt)
/// }
///
/// # async fn story() -> Result<()> {
/// let mocks = Mocks::new().tool("refund", [
///     Call::with(json!({"order": 7, "cents": 500})).fails("the bank is busy"),
///     Call::containing(json!({"order": 7})).returns("receipt 1"),
/// ]);
/// assert_eq!(complain::workflow().run(&mocks.runtime().build(), 7).await?, "receipt 1");
/// mocks.finish();
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(story()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "mocks replace nothing until a runtime has them"]
#[doc(alias = "MockBackend")]
#[doc(alias = "Doubles")]
#[doc(alias = "Stubs")]
pub struct Mocks(Arc<Shared>);

struct Shared(Mutex<MockState>);

#[derive(Default)]
struct MockState {
    callees: BTreeMap<(ReplacedKind, Arc<str>), Calls>,
    questions: Option<Vec<ExpectedQuestion>>,
    failures: Vec<String>,
    finished: bool,
}

impl Mocks {
    /// Creates an empty set of mocks.
    pub fn new() -> Self {
        watch_errors();
        Self(Arc::new(Shared(Mutex::default())))
    }

    /// Replaces the tool with this name. `calls` is a list of [`Call`]s in order, or another form
    /// of [`Calls`].
    ///
    /// # Panics
    /// If this tool already has a mock.
    #[track_caller]
    pub fn tool(self, name: impl Into<Arc<str>>, calls: impl Into<Calls>) -> Self {
        self.with(ReplacedKind::Tool, name.into(), calls.into())
    }

    /// Replaces the model of the agent with this name. The mock's value is the answer of the model:
    /// a string is its text, other values are the JSON of the agent's output type. A [`Call`] sees
    /// the arguments `{"instructions": "..", "message": ".."}`.
    ///
    /// The agent itself is real: an answer that does not match its output type is sent back to the
    /// mock, as it would be to a model. If the agent should call its tools, use a
    /// [`ScriptedModel`](crate::ScriptedModel) with [`RuntimeBuilder::agent_model`].
    ///
    /// # Panics
    /// If this agent already has a mock.
    #[track_caller]
    pub fn agent(self, name: impl Into<Arc<str>>, calls: impl Into<Calls>) -> Self {
        self.with(ReplacedKind::Agent, name.into(), calls.into())
    }

    /// Replaces the workflow with this name where it is a step, a tool or the target of a graph
    /// node. A [`Call`] sees the inputs by name as its arguments. A workflow that the test starts
    /// directly is not replaced.
    ///
    /// # Panics
    /// If this workflow already has a mock.
    #[track_caller]
    pub fn workflow(self, name: impl Into<Arc<str>>, calls: impl Into<Calls>) -> Self {
        self.with(ReplacedKind::Workflow, name.into(), calls.into())
    }

    /// Answers questions of runs to persons, each with its [`ExpectedQuestion`]. A question that
    /// matches none of them cancels its run.
    pub fn person(self, questions: impl IntoIterator<Item = ExpectedQuestion>) -> Self {
        self.0.state().questions.get_or_insert_default().extend(questions);
        self
    }

    #[track_caller]
    fn with(self, kind: ReplacedKind, name: Arc<str>, calls: Calls) -> Self {
        let before = self.0.state().callees.insert((kind, Arc::clone(&name)), calls);
        if before.is_some() {
            // The panic reports this mistake, so dropping the mocks must not panic again.
            self.0.state().finished = true;
            panic!("the {kind} `{name}` has two mocks; give one all its calls");
        }
        self
    }

    /// Creates a builder from [`test_runtime`] with these mocks.
    pub fn runtime(&self) -> RuntimeBuilder {
        test_runtime().replace(self.clone())
    }

    /// Returns the mismatches so far. Calls that have not been made yet are not included.
    pub fn failures(&self) -> Vec<String> {
        self.0.state().failures.clone()
    }

    /// Ends the test: checks that all calls and questions matched and that none is left.
    ///
    /// # Panics
    /// If there is a mismatch or an expected call is left, with all of them.
    #[track_caller]
    #[doc(alias = "verify")]
    pub fn finish(&self) {
        let problems = {
            let mut state = self.0.state();
            state.finished = true;
            state.problems()
        };
        if let Some(problems) = problems {
            panic!("{problems}");
        }
    }
}

impl Default for Mocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, MockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MockState {
    /// Returns all problems at the end of a test.
    fn problems(&self) -> Option<String> {
        let mut problems = self.failures.clone();
        for ((kind, name), calls) in &self.callees {
            problems.extend(
                calls.left().map(|call| format!("the {kind} `{name}` was never called {call}")),
            );
        }
        for question in self.questions.iter().flatten() {
            problems.push(format!("nobody was asked {question}"));
        }
        match problems.is_empty() {
            true => None,
            false => Some(format!(
                "the calls of the run differ from those that the mocks expect\n\n{}\n",
                problems.join("\n\n")
            )),
        }
    }
}

#[async_trait]
impl Replacement for Mocks {
    fn names(&self) -> Vec<(ReplacedKind, Arc<str>)> {
        self.0.state().callees.keys().cloned().collect()
    }

    async fn call(&self, call: ReplacedCall<'_>) -> Result<ToolOutput, ReplacedError> {
        let arguments: Value = serde_json::from_str(call.arguments).unwrap_or_default();
        let of = match call.path {
            Some(path) => format!("the {} `{}` at `{path}`", call.kind, call.name),
            None => format!("the {} `{}`", call.kind, call.name),
        };
        // The lock is released before the answer, which may be delayed or use the mocks again.
        let ready = {
            let mut state = self.0.state();
            let calls = state.callees.get_mut(&(call.kind, Arc::from(call.name)));
            calls.map(|calls| calls.next(&arguments))
        };
        let answer = match ready {
            Some(Ok(ready)) => ready.answer(&arguments).await,
            Some(Err(problem)) => Err(problem),
            None => Err("the mocks were described after the runtime was built".to_owned()),
        };
        answer.unwrap_or_else(|problem| {
            let problem = format!("{of} was called with {arguments}: {problem}");
            self.0.state().failures.push(problem.clone());
            Err(ToolError::new(problem).into())
        })
    }

    fn answers_questions(&self) -> bool {
        self.0.state().questions.is_some()
    }

    async fn answer(
        &self,
        path: &StepPath,
        question: &ApprovalRequest,
    ) -> Result<Option<Encoded>, String> {
        let ready: Result<Ready, String> = {
            let mut state = self.0.state();
            let expected = state.questions.get_or_insert_default();
            match expected.iter().position(|expected| expected.is_of(path, question)) {
                Some(at) => Ok(expected.remove(at).into_ready()),
                None => {
                    let listed: Vec<String> = expected.iter().map(ToString::to_string).collect();
                    let left = if listed.is_empty() {
                        "no further one".to_owned()
                    } else {
                        listed.join("; ")
                    };
                    Err(format!("expected was {left}"))
                }
            }
        };
        let payload = question.payload.decode().unwrap_or_default();
        let answer = match ready {
            Ok(Ready { stays: true, .. }) => return Ok(None),
            Ok(ready) => ready.answer(&payload).await,
            Err(problem) => Err(problem),
        };
        let answer = answer.and_then(|answer| answer.map_err(|error| format!("{error:?}")));
        let answer = answer.and_then(|json| {
            Encoded::from_json(json.into_json()).map_err(|error| error.to_string())
        });
        answer.map(Some).map_err(|problem| {
            let problem = format!(
                "`{path}` asked a person {:?} about {}: {problem}",
                question.message, question.payload
            );
            self.0.state().failures.push(problem.clone());
            problem
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state();
        // A second panic during unwinding would abort the process.
        if state.finished || std::thread::panicking() {
            return;
        }
        let problems = state.problems();
        let are_left_over = state.failures.is_empty();
        drop(state);
        if let Some(problems) = problems {
            panic_when_dropped(&problems, are_left_over);
        }
    }
}

impl fmt::Debug for Mocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state();
        let names: Vec<String> =
            state.callees.keys().map(|(kind, name)| format!("{kind} {name}")).collect();
        f.debug_struct("Mocks")
            .field("of", &names)
            .field("failures", &state.failures)
            .finish_non_exhaustive()
    }
}
