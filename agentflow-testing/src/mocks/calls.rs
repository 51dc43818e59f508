//! Defines `Call` and `Calls`: the calls that a mock expects, their arguments and their answers. It
//! matches calls and executes nothing.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentflow::tool::{ReplacedError, ToolError};
use agentflow::value::Encoded;
use serde::Serialize;
use serde_json::Value;

use super::ready::{Ready, Way};
use crate::expect::without_panic;

/// An expected call to a mock, with its answer.
///
/// Start with the expected arguments ([`any`](Self::any), [`with`](Self::with),
/// [`containing`](Self::containing), [`matching`](Self::matching)), then set the answer
/// ([`returns`](Self::returns), [`fails`](Self::fails), [`computes`](Self::computes)). The default
/// answer is `null`, the value of a function that returns nothing.
///
/// ```
/// use agentflow::serde_json::json;
/// use agentflow_testing::Call;
///
/// let call = Call::containing(json!({"order": 7})).returns("receipt 1").times(2);
/// assert!(format!("{call:?}").contains("order"));
/// ```
#[must_use = "a call is expected when a mock has it"]
#[derive(Clone)]
pub struct Call {
    arguments: ExpectedArguments,
    ready: Ready,
    times: usize,
}

#[derive(Clone)]
enum ExpectedArguments {
    Any,
    Equal(Value),
    Containing(Value),
    Matching(Arc<str>, Arc<dyn Fn(&Value) -> bool + Send + Sync>),
}

impl Call {
    fn new(arguments: ExpectedArguments) -> Self {
        Self { arguments, ready: Ready::new(Way::Value(Value::Null)), times: 1 }
    }

    /// Expects a call with any arguments.
    pub fn any() -> Self {
        Self::new(ExpectedArguments::Any)
    }

    /// Expects a call with exactly these arguments: a JSON object of all arguments by name.
    ///
    /// # Panics
    /// If the arguments cannot be serialized to JSON.
    #[track_caller]
    pub fn with(arguments: impl Serialize) -> Self {
        Self::new(ExpectedArguments::Equal(json_of(&arguments)))
    }

    /// Expects a call with at least these arguments. Each given field must have this value,
    /// recursively in nested objects. Lists must be equal.
    ///
    /// # Panics
    /// If the arguments cannot be serialized to JSON.
    #[track_caller]
    pub fn containing(arguments: impl Serialize) -> Self {
        Self::new(ExpectedArguments::Containing(json_of(&arguments)))
    }

    /// Expects a call with arguments for which a closure returns `true`. `what` describes the
    /// expected arguments in failures. A panic in the closure fails the test.
    pub fn matching(
        what: impl Into<Arc<str>>,
        fits: impl Fn(&Value) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(ExpectedArguments::Matching(what.into(), Arc::new(fits)))
    }

    /// Answers with a value.
    ///
    /// # Panics
    /// If the value cannot be serialized to JSON.
    #[track_caller]
    pub fn returns(mut self, value: impl Serialize) -> Self {
        self.ready.way = Way::Value(json_of(&value));
        self
    }

    /// Fails with a message: as a tool error, a failed workflow or a failed model call of an agent.
    pub fn fails(mut self, message: impl Into<String>) -> Self {
        self.ready.way = Way::Error(ToolError::new(message).into());
        self
    }

    /// Fails with a value of the function's own error type, so that the step receives this type.
    ///
    /// # Panics
    /// If the error cannot be serialized to JSON.
    #[track_caller]
    pub fn fails_with(mut self, error: impl Serialize + fmt::Display) -> Self {
        let value = match Encoded::new(&error) {
            Ok(value) => value,
            Err(problem) => panic!("the error `{error}` has no JSON form: {problem}"),
        };
        self.ready.way =
            Way::Error(ReplacedError::from(ToolError::new(error.to_string())).with_value(value));
        self
    }

    /// Computes the answer from the arguments. A panic in the closure, such as a failed
    /// `assert_eq!`, fails the test.
    pub fn computes(mut self, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        self.ready.way = Way::Computed(Arc::new(answer));
        self
    }

    /// Delays the answer, in tokio's time. With paused time, the delay takes no real time.
    /// Time-outs of the replaced callee apply.
    pub fn after(mut self, delay: Duration) -> Self {
        self.ready.delay = delay;
        self
    }

    /// Expects the call this number of times. Default: once.
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    fn fits(&self, arguments: &Value) -> Result<(), String> {
        let otherwise =
            |right: bool| if right { Ok(()) } else { Err(format!("expected was a call {self}")) };
        match &self.arguments {
            ExpectedArguments::Any => Ok(()),
            ExpectedArguments::Equal(expected) => otherwise(expected == arguments),
            ExpectedArguments::Containing(part) => otherwise(contains(arguments, part)),
            ExpectedArguments::Matching(_, fits) => {
                without_panic(|| fits(arguments)).and_then(otherwise)
            }
        }
    }
}

#[track_caller]
pub(super) fn json_of(value: &impl Serialize) -> Value {
    match serde_json::to_value(value) {
        Ok(value) => value,
        Err(error) => panic!("a value for a mock has no JSON form: {error}"),
    }
}

/// Returns `true` if `whole` contains all of `part`, recursively for objects.
pub(super) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, part)| whole.get(name).is_some_and(|whole| contains(whole, part))),
        (whole, part) => whole == part,
    }
}

/// Describes the call in failures: `with {..}`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.arguments {
            ExpectedArguments::Any => f.write_str("with any arguments"),
            ExpectedArguments::Equal(arguments) => write!(f, "with {arguments}"),
            ExpectedArguments::Containing(part) => write!(f, "with at least {part}"),
            ExpectedArguments::Matching(what, _) => write!(f, "with {what}"),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({self})")
    }
}

/// The expected calls to a mock: a list of [`Call`]s in order, or one of the other forms.
///
/// ```
/// use agentflow_testing::{Call, Calls, Mocks};
///
/// let calls = Calls::any_order([Call::any().returns(1), Call::any().returns(2)]);
/// let mocks = Mocks::new().tool("refund", Calls::never());
/// # drop(calls);
/// mocks.finish();
/// ```
#[derive(Clone, Debug)]
pub struct Calls {
    expected: VecDeque<Call>,
    order: CallOrder,
    made: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CallOrder {
    Given,
    Any,
    /// Any number of calls, including none.
    Endless,
}

impl Calls {
    fn new(calls: impl IntoIterator<Item = Call>, order: CallOrder) -> Self {
        // `times(n)` becomes n expected calls, so that matching only handles single calls.
        let one = |call: Call| std::iter::repeat_n(Call { times: 1, ..call.clone() }, call.times);
        let expected = calls.into_iter().flat_map(one).collect();
        Self { expected, order, made: 0 }
    }

    /// Expects these calls in any order, for concurrent calls. A call is matched with the first
    /// expected call that fits, and each expected call is used once.
    pub fn any_order(calls: impl IntoIterator<Item = Call>) -> Self {
        Self::new(calls, CallOrder::Any)
    }

    /// Answers any number of calls, including none. Each is answered by the first of these that
    /// fits.
    pub fn endless(calls: impl IntoIterator<Item = Call>) -> Self {
        Self::new(calls, CallOrder::Endless)
    }

    /// Expects no call.
    pub fn never() -> Self {
        Self::new([], CallOrder::Given)
    }

    /// Returns the answer of the next call.
    pub(super) fn next(&mut self, arguments: &Value) -> Result<Ready, String> {
        let at = match (self.order, self.expected.front()) {
            (_, None) => {
                return Err(match self.made {
                    0 => "no call was expected".to_owned(),
                    1 => "1 call was expected, and it was made before".to_owned(),
                    made => format!("{made} calls were expected, and all were made before"),
                });
            }
            (CallOrder::Given, Some(next)) => next.fits(arguments).map(|()| 0)?,
            (CallOrder::Any | CallOrder::Endless, _) => {
                let fitting = self.expected.iter().position(|call| call.fits(arguments).is_ok());
                let listed = || {
                    self.expected.iter().map(ToString::to_string).collect::<Vec<_>>().join("; or ")
                };
                fitting.ok_or_else(|| format!("expected was a call {}", listed()))?
            }
        };
        self.made += 1;
        let call = match self.order {
            // An endless call is never used up.
            CallOrder::Endless => self.expected.get(at).cloned(),
            CallOrder::Given | CallOrder::Any => self.expected.remove(at),
        };
        call.map(|call| call.ready).ok_or_else(|| "no call was expected".to_owned())
    }

    /// Returns the expected calls that were never made.
    pub(super) fn left(&self) -> impl Iterator<Item = &Call> {
        self.expected.iter().filter(|_| self.order != CallOrder::Endless)
    }
}

impl<const N: usize> From<[Call; N]> for Calls {
    fn from(calls: [Call; N]) -> Self {
        Self::new(calls, CallOrder::Given)
    }
}

impl From<Vec<Call>> for Calls {
    fn from(calls: Vec<Call>) -> Self {
        Self::new(calls, CallOrder::Given)
    }
}

impl From<Call> for Calls {
    fn from(call: Call) -> Self {
        Self::new([call], CallOrder::Given)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_is_found_in_objects_and_lists_are_equal() {
        let whole = json!({"a": {"b": 1, "c": [1, 2]}, "d": null});
        assert!(contains(&whole, &json!({"a": {"b": 1}})) && contains(&whole, &json!({})));
        assert!(contains(&whole, &json!({"a": {"c": [1, 2]}, "d": null})));
        for other in
            [json!({"a": {"b": 2}}), json!({"a": {"c": [1]}}), json!({"e": null}), json!([])]
        {
            assert!(!contains(&whole, &other), "{other}");
        }
    }

    #[test]
    fn calls_are_in_order_unless_they_say_otherwise() {
        let two = || [Call::with(json!(1)), Call::with(json!(2))];
        let mut ordered = Calls::from(two());
        let problem = ordered.next(&json!(2)).err();
        assert_eq!(problem.as_deref(), Some("expected was a call with 1"));
        assert!(ordered.next(&json!(1)).is_ok() && ordered.next(&json!(2)).is_ok());
        assert_eq!(
            ordered.next(&json!(2)).err().as_deref(),
            Some("2 calls were expected, and all were made before")
        );
        let mut any = Calls::any_order(two());
        assert!(any.next(&json!(2)).is_ok() && any.next(&json!(2)).is_err());
        assert_eq!(any.left().map(ToString::to_string).collect::<Vec<_>>(), ["with 1"]);
        let mut endless = Calls::endless([Call::matching("an even number", |n| {
            n.as_u64().is_some_and(|n| n % 2 == 0)
        })]);
        assert!(
            endless.next(&json!(2)).is_ok()
                && endless.next(&json!(4)).is_ok()
                && endless.left().count() == 0
        );
        assert_eq!(
            endless.next(&json!(3)).err().as_deref(),
            Some("expected was a call with an even number")
        );
        assert_eq!(Calls::from(Call::any().times(3)).left().count(), 3);
        assert_eq!(Calls::never().next(&json!(0)).err().as_deref(), Some("no call was expected"));
    }
}
