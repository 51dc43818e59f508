//! Defines `Turn`, one turn of a scripted model: the answer, its timing, its end, and the
//! expectations on the request.
//!
//! A turn is data. [`ScriptedModel`](crate::ScriptedModel) plays it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::Message;
use agentflow::message::{Part, Reasoning, Role, ToolCall};
use agentflow::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelResponse, StopReason, ToolCallDelta,
    Usage,
};
use agentflow::state::{StateKey, StateOwner, StateValue};
use agentflow::value::Encoded;
use serde::Serialize;

use crate::expect::Expectation;

/// The behaviour of a scripted model in one call.
///
/// Start with the answer ([`text`](Self::text), [`call`](Self::call), [`pieces`](Self::pieces),
/// ...), add details ([`and_call`](Self::and_call), [`reasoning`](Self::reasoning),
/// [`usage`](Self::usage), [`after`](Self::after), ...), and set expectations on the request
/// ([`check`](Self::check) and the methods that start with `expect_`).
///
/// ```
/// use agentflow_testing::Turn;
/// use agentflow::serde_json::json;
///
/// let first = Turn::call("weather", json!({"city": "Oslo"})).expect_tools(["weather"]);
/// let then = Turn::text("It rains.").expect_result("weather", json!("rain"));
/// # let _ = (first, then);
/// ```
#[must_use = "a turn does nothing until it is part of a script"]
pub struct Turn {
    pub(crate) said: Vec<Said>,
    pub(crate) delay: Duration,
    pub(crate) pace: Duration,
    pub(crate) ending: Ending,
    pub(crate) usage: Usage,
    pub(crate) stop_reason: Option<StopReason>,
    pub(crate) expectations: Vec<Expectation>,
    /// State keys that the answer sets, with their values as JSON.
    pub(crate) saves: BTreeMap<String, Encoded>,
}

/// An element of the answer. Texts are split into the pieces that a stream sends.
pub(crate) enum Said {
    Text(Vec<String>),
    Reasoning(Vec<String>),
    Call {
        id: Option<String>,
        name: String,
        arguments: Vec<String>,
    },
    Part(Part),
    /// A progress event that is not part of the answer.
    Event(Encoded),
}

/// Computes a turn from the request that it answers.
type ComputeTurn = Box<dyn FnOnce(&ModelRequest) -> Turn + Send>;

/// The end of a turn.
pub(crate) enum Ending {
    Completed,
    /// The stream ends without a completed response.
    Cut,
    /// The stream stays open and sends nothing more.
    Stalled,
    Failed(ModelError),
    /// The turn is computed from the request. The lock is never taken; it makes the type `Sync`.
    Computed(Mutex<ComputeTurn>),
    /// A complete response that is returned unchanged.
    Given(Box<ModelResponse>),
}

impl Turn {
    fn new(ending: Ending) -> Self {
        Self {
            said: Vec::new(),
            delay: Duration::ZERO,
            pace: Duration::ZERO,
            ending,
            usage: Usage::default(),
            stop_reason: None,
            expectations: Vec::new(),
            saves: BTreeMap::new(),
        }
    }

    /// Answers with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Ending::Completed).and_text(text)
    }

    /// Answers with text in these pieces. A streamed run shows each piece as a delta.
    pub fn pieces<S: Into<String>>(pieces: impl IntoIterator<Item = S>) -> Self {
        Self::new(Ending::Completed)
            .and_said(Said::Text(pieces.into_iter().map(Into::into).collect()))
    }

    /// Calls a tool. `arguments` is any serializable value, usually `json!({..})`.
    ///
    /// The calls of a script have the ids `call_1`, `call_2`, and so on. [`id`](Self::id) sets a
    /// different one.
    ///
    /// # Panics
    /// If the arguments cannot be serialized to JSON.
    pub fn call(tool: impl Into<String>, arguments: impl Serialize) -> Self {
        Self::new(Ending::Completed).and_call(tool, arguments)
    }

    /// Calls a tool with arguments that may be invalid JSON, as real models sometimes do.
    pub fn raw_call(tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::call_pieces(tool, [arguments])
    }

    /// Like [`raw_call`](Self::raw_call), with the text of the arguments in the pieces that a
    /// stream sends.
    pub fn call_pieces<S: Into<String>>(
        tool: impl Into<String>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self::new(Ending::Completed).and_said(Said::Call { id: None, name: tool.into(), arguments })
    }

    /// Calls several tools in one turn.
    ///
    /// # Panics
    /// If arguments cannot be serialized to JSON.
    pub fn calls<N: Into<String>, A: Serialize>(calls: impl IntoIterator<Item = (N, A)>) -> Self {
        calls.into_iter().fold(Self::new(Ending::Completed), |turn, (tool, arguments)| {
            turn.and_call(tool, arguments)
        })
    }

    /// Answers with a complete response, for cases that the other methods do not cover. It is not
    /// split into pieces.
    pub fn response(response: ModelResponse) -> Self {
        Self::new(Ending::Given(Box::new(response)))
    }

    /// Fails the call. To fail in the middle of the answer, use [`then_error`](Self::then_error).
    pub fn error(error: ModelError) -> Self {
        Self::new(Ending::Failed(error))
    }

    /// Fails the call with an error of this kind.
    pub fn fails(kind: ModelErrorKind) -> Self {
        Self::error(ModelError::new(kind, "the script says that this call fails"))
    }

    /// Never answers. With virtual time, the nearest time limit ends the wait immediately.
    pub fn stall() -> Self {
        Self::new(Ending::Stalled)
    }

    /// Computes the turn from the request. A panic in the closure, such as a failed `assert!`,
    /// fails the script. Expectations and [`after`](Self::after) can be set on this turn too; its
    /// other settings are replaced by the returned turn.
    pub fn with(turn: impl FnOnce(&ModelRequest) -> Self + Send + 'static) -> Self {
        Self::new(Ending::Computed(Mutex::new(Box::new(turn))))
    }

    fn and_said(mut self, said: Said) -> Self {
        self.said.push(said);
        self
    }

    /// Adds text to the turn, such as an explanation next to a tool call. Elements keep the order
    /// in which they are added.
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.and_said(Said::Text(vec![text.into()]))
    }

    /// Adds another tool call to the turn.
    ///
    /// # Panics
    /// If the arguments cannot be serialized to JSON.
    pub fn and_call(self, tool: impl Into<String>, arguments: impl Serialize) -> Self {
        let tool = tool.into();
        let arguments = match serde_json::to_string(&arguments) {
            Ok(json) => json,
            Err(error) => {
                panic!("the arguments of the scripted call of `{tool}` have no JSON form: {error}")
            }
        };
        self.and_said(Said::Call { id: None, name: tool, arguments: vec![arguments] })
    }

    /// Adds a part of any kind, such as reasoning with a provider's opaque value. Parts keep the
    /// order in which they are added.
    pub fn and_part(self, part: Part) -> Self {
        self.and_said(Said::Part(part))
    }

    /// Sets a state key with the answer, as agents of other frameworks do. The value is recorded
    /// with the answer. The tools that the turn calls and all later steps see it, also after the
    /// run is resumed.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::state::StateKey;
    /// use agentflow::store::MemoryStore;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// static INTENT: StateKey<String> = StateKey::session("intent");
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let model = ScriptedModel::new([Turn::text("A refund, then.").state(&INTENT, &"refund".to_owned())]);
    /// let run = Agent::new(model).runtime(&runtime).start("I want my money back.")?;
    /// run.result().await?;
    /// assert_eq!(runtime.run(run.run_id()).state().await?.get(&INTENT).unwrap().as_deref(), Some("refund"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the key is not a session key, or if the value cannot be serialized to JSON.
    pub fn state<T: StateValue>(mut self, key: &StateKey<T>, value: &T) -> Self {
        assert_eq!(
            key.owner(),
            StateOwner::Session,
            "a scripted answer sets keys of the session alone, and not `{key}`"
        );
        match value.encode() {
            Ok(value) => drop(self.saves.insert(key.to_string(), value)),
            Err(error) => panic!("the value of the scripted key `{key}` has no JSON form: {error}"),
        }
        self
    }

    /// Sends a custom event after the previous pieces: any JSON value. A streamed run shows it as
    /// `step.progress` of the model call and does not record it.
    ///
    /// # Panics
    /// If the value cannot be serialized to JSON.
    /// When the value has no JSON form.
    pub fn event(self, value: impl Serialize) -> Self {
        let encoded = serde_json::to_string(&value).and_then(Encoded::from_json);
        match encoded {
            Ok(value) => self.and_said(Said::Event(value)),
            Err(error) => panic!("a scripted event has no JSON form: {error}"),
        }
    }

    /// Adds reasoning before all previous elements.
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.said.insert(0, Said::Reasoning(vec![text.into()]));
        self
    }

    /// Sets the id of the tool call that was added last.
    ///
    /// # Panics
    /// If the turn has no tool call yet.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        let last = self.said.iter_mut().rev().find_map(|said| match said {
            Said::Call { id, .. } => Some(id),
            _ => None,
        });
        match last {
            Some(slot) => *slot = Some(id.into()),
            None => panic!("`id` names the tool call before it, and this turn has none"),
        }
        self
    }

    /// Sets the reported usage. Default: zero.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the stop reason. Default: `tool_calls` if the turn calls tools, otherwise `stop`.
    pub fn stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// Waits before the first piece. It needs a tokio runtime; with virtual time the wait takes no
    /// real time.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits before each piece except the first, and before the end. A call that is not streamed
    /// waits for the sum of these pauses.
    pub fn paced(mut self, pause: Duration) -> Self {
        self.pace = pause;
        self
    }

    /// Ends the stream after the pieces so far, without a completed response, as if the connection
    /// was closed.
    pub fn then_cut(mut self) -> Self {
        self.ending = Ending::Cut;
        self
    }

    /// Sends the pieces so far and then nothing more; the stream stays open.
    pub fn then_stall(mut self) -> Self {
        self.ending = Ending::Stalled;
        self
    }

    /// Sends the pieces so far and then fails with an error.
    pub fn then_error(mut self, error: ModelError) -> Self {
        self.ending = Ending::Failed(error);
        self
    }

    /// Returns the number of pieces that a stream sends before the end.
    fn piece_count(&self) -> usize {
        self.said
            .iter()
            .map(|said| match said {
                Said::Text(pieces)
                | Said::Reasoning(pieces)
                | Said::Call { arguments: pieces, .. } => pieces.len(),
                Said::Part(_) => 0,
                Said::Event(_) => 1,
            })
            .sum()
    }

    /// Returns the sum of the pauses of [`paced`](Self::paced), for a call that is not streamed.
    pub(crate) fn all_pauses(&self) -> Duration {
        self.pace * u32::try_from(self.piece_count()).unwrap_or(u32::MAX)
    }

    /// Assigns the next id to each call without one.
    pub(crate) fn number_calls(&mut self, next: &mut impl FnMut() -> String) {
        for said in &mut self.said {
            if let Said::Call { id: id @ None, .. } = said {
                *id = Some(next());
            }
        }
    }

    /// Returns the events that a stream sends before the end.
    pub(crate) fn stream_events(&self) -> Vec<ModelEvent> {
        let mut events = Vec::with_capacity(self.piece_count());
        let mut index = 0;
        for said in &self.said {
            match said {
                Said::Text(pieces) => events.extend(pieces.iter().cloned().map(ModelEvent::Text)),
                Said::Reasoning(pieces) => {
                    events.extend(pieces.iter().cloned().map(ModelEvent::Reasoning));
                }
                Said::Call { id, name, arguments } => {
                    // Like real providers, only the first piece of a call carries its id and name.
                    events.extend(arguments.iter().enumerate().map(|(at, piece)| {
                        let mut delta = ToolCallDelta::new(index, piece);
                        delta.id = id.clone().filter(|_| at == 0);
                        delta.name = (at == 0).then(|| name.clone());
                        ModelEvent::ToolCall(delta)
                    }));
                    // Pieces of one call share an index; the next call gets the next one.
                    index += 1;
                }
                Said::Part(_) => {}
                Said::Event(value) => events.push(ModelEvent::Progress(value.clone())),
            }
        }
        events
    }

    /// Returns a response of [`response`](Self::response) with the state of this turn added.
    pub(crate) fn given(self, mut response: Box<ModelResponse>) -> Box<ModelResponse> {
        save_with(&mut response, self.saves);
        response
    }

    /// Builds the complete response.
    pub(crate) fn into_response(self) -> Box<ModelResponse> {
        let Self { said, usage, stop_reason, saves, .. } = self;
        let parts: Vec<Part> = said.into_iter().filter_map(Said::into_part).collect();
        let mut response = ModelResponse::new(Message::new(Role::Assistant, parts));
        response.usage = usage;
        save_with(&mut response, saves);
        if let Some(reason) = stop_reason {
            response.stop_reason = reason;
        }
        Box::new(response)
    }

    /// Returns a short description of the turn for failure messages.
    pub(crate) fn summary(&self) -> String {
        let said: Vec<String> = self
            .said
            .iter()
            .map(|said| match said {
                Said::Text(pieces) => format!("text {:?}", pieces.concat()),
                Said::Reasoning(_) => "reasoning".to_owned(),
                Said::Call { name, arguments, .. } => format!("call {name} {}", arguments.concat()),
                Said::Part(_) => "a part".to_owned(),
                Said::Event(value) => format!("event {value}"),
            })
            .collect();
        let saved = self.saves.keys().map(|key| format!("state `{key}`"));
        let ending = match &self.ending {
            Ending::Completed => None,
            Ending::Cut => Some("cut off".to_owned()),
            Ending::Stalled => Some("stall".to_owned()),
            Ending::Failed(error) => Some(format!("error {}", error.kind().as_str())),
            Ending::Computed(_) => Some("made by a closure".to_owned()),
            Ending::Given(response) => Some(format!("response {:?}", response.text())),
        };
        let all: Vec<String> = said.into_iter().chain(saved).chain(ending).collect();
        if all.is_empty() { "an empty answer".to_owned() } else { all.join(", ") }
    }
}

/// Adds state to a response by way of its serialized form, because the type has no constructor.
fn save_with(response: &mut ModelResponse, saves: BTreeMap<String, Encoded>) {
    if !saves.is_empty() {
        let saved = serde_json::to_string(&BTreeMap::from([("set", saves)]));
        response.saved = saved.and_then(|json| serde_json::from_str(&json)).ok().map(Arc::new);
    }
}

impl Said {
    fn into_part(self) -> Option<Part> {
        fn joined(mut pieces: Vec<String>) -> String {
            if pieces.len() == 1 { pieces.pop().unwrap_or_default() } else { pieces.concat() }
        }
        Some(match self {
            Self::Text(pieces) => Part::Text { text: joined(pieces) },
            Self::Reasoning(pieces) => Part::Reasoning(Reasoning::new(joined(pieces), "script")),
            Self::Call { id, name, arguments } => Part::ToolCall(
                ToolCall::new(id.unwrap_or_default(), name, joined(arguments)).into(),
            ),
            Self::Part(part) => part,
            Self::Event(_) => return None,
        })
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({})", self.summary())
    }
}
