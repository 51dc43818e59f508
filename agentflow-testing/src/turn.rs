//! `Turn`: one turn of a script, with what the model answers, when, how the answer ends, and what the request must
//! hold.
//!
//! A turn is a description; [`ScriptedModel`](crate::ScriptedModel) plays it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::Message;
use agentflow::message::{Part, Reasoning, Role, ToolCall};
use agentflow::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelResponse, StopReason, ToolCallDelta, Usage,
};
use agentflow::state::{StateKey, StateOwner, StateValue};
use agentflow::value::Encoded;
use serde::Serialize;

use crate::expect::Expectation;

/// What a scripted model does when it is called.
///
/// Begin with what it says ([`text`](Self::text), [`call`](Self::call), [`pieces`](Self::pieces), ...), add to it
/// ([`and_call`](Self::and_call), [`reasoning`](Self::reasoning), [`usage`](Self::usage), [`after`](Self::after), ...),
/// and say what the request must be (the methods that begin with `expect_`, and [`check`](Self::check)).
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
    /// Keys of the state that the answer sets, with their values as JSON.
    pub(crate) saves: BTreeMap<String, Encoded>,
}

/// Something the model says, in the pieces in which a stream shows it.
pub(crate) enum Said {
    Text(Vec<String>),
    Reasoning(Vec<String>),
    Call {
        id: Option<String>,
        name: String,
        arguments: Vec<String>,
    },
    Part(Part),
    /// An event beside the answer.
    Event(Encoded),
}

/// Makes a turn from the request that it answers.
type ComputeTurn = Box<dyn FnOnce(&ModelRequest) -> Turn + Send>;

/// How a turn ends.
pub(crate) enum Ending {
    Completed,
    /// The stream stops without saying that the answer is whole.
    Cut,
    /// Nothing more ever comes.
    Stalled,
    Failed(ModelError),
    /// The turn depends on the request. The lock is never taken; it makes the type `Sync`.
    Computed(Mutex<ComputeTurn>),
    /// A whole answer, given as it is.
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

    /// The model answers with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Ending::Completed).and_text(text)
    }

    /// The model answers with a text that comes in these pieces; a run that is streamed shows each as a delta.
    pub fn pieces<S: Into<String>>(pieces: impl IntoIterator<Item = S>) -> Self {
        Self::new(Ending::Completed).and_said(Said::Text(pieces.into_iter().map(Into::into).collect()))
    }

    /// The model asks for a tool. `arguments` is anything that has a JSON form; `json!({..})` is the usual one.
    ///
    /// The call's id is `call_1`, `call_2`, ... through the script; [`id`](Self::id) gives it another one.
    ///
    /// # Panics
    /// When the arguments have no JSON form.
    pub fn call(tool: impl Into<String>, arguments: impl Serialize) -> Self {
        Self::new(Ending::Completed).and_call(tool, arguments)
    }

    /// The model asks for a tool with arguments that may be no JSON at all, as models do.
    pub fn raw_call(tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::call_pieces(tool, [arguments])
    }

    /// Like [`raw_call`](Self::raw_call), with the arguments' text in the pieces in which a stream shows it.
    pub fn call_pieces<S: Into<String>>(tool: impl Into<String>, arguments: impl IntoIterator<Item = S>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self::new(Ending::Completed).and_said(Said::Call { id: None, name: tool.into(), arguments })
    }

    /// The model asks for several tools at once.
    ///
    /// # Panics
    /// When arguments have no JSON form.
    pub fn calls<N: Into<String>, A: Serialize>(calls: impl IntoIterator<Item = (N, A)>) -> Self {
        calls.into_iter().fold(Self::new(Ending::Completed), |turn, (tool, arguments)| turn.and_call(tool, arguments))
    }

    /// A whole answer, for what the other methods cannot say. It comes in one piece.
    pub fn response(response: ModelResponse) -> Self {
        Self::new(Ending::Given(Box::new(response)))
    }

    /// The call fails. For a failure in the middle of the answer see [`then_error`](Self::then_error).
    pub fn error(error: ModelError) -> Self {
        Self::new(Ending::Failed(error))
    }

    /// The call fails with an error of this kind.
    pub fn fails(kind: ModelErrorKind) -> Self {
        Self::error(ModelError::new(kind, "the script says that this call fails"))
    }

    /// The model never answers. Under virtual time the nearest time limit ends the wait at once.
    pub fn stall() -> Self {
        Self::new(Ending::Stalled)
    }

    /// A turn that is made when the request is there. A panic in the closure, such as a failed `assert!`, fails the
    /// script. Expectations and [`after`](Self::after) can be added here too; all else is what the closure returns.
    pub fn with(turn: impl FnOnce(&ModelRequest) -> Self + Send + 'static) -> Self {
        Self::new(Ending::Computed(Mutex::new(Box::new(turn))))
    }

    fn and_said(mut self, said: Said) -> Self {
        self.said.push(said);
        self
    }

    /// Says a text beside what was said before, such as a sentence before a tool call.
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.and_said(Said::Text(vec![text.into()]))
    }

    /// Asks for one more tool in the same turn.
    ///
    /// # Panics
    /// When the arguments have no JSON form.
    pub fn and_call(self, tool: impl Into<String>, arguments: impl Serialize) -> Self {
        let tool = tool.into();
        let arguments = match serde_json::to_string(&arguments) {
            Ok(json) => json,
            Err(error) => panic!("the arguments of the scripted call of `{tool}` have no JSON form: {error}"),
        };
        self.and_said(Said::Call { id: None, name: tool, arguments: vec![arguments] })
    }

    /// Adds a part of any kind, such as reasoning with a provider's opaque value. Parts are in the order in which they
    /// are added.
    pub fn and_part(self, part: Part) -> Self {
        self.and_said(Said::Part(part))
    }

    /// Sets a key of the state with the answer, as an agent of another framework does. It is recorded with the answer: the tools
    /// that the turn calls see the value, and so does all that follows, also when the run is resumed.
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
    /// assert_eq!(runtime.run_state(run.run_id()).await?.get(&INTENT).unwrap().as_deref(), Some("refund"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the key is not one of the session, or the value has no JSON form.
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

    /// Sends an event of the program after the pieces so far: any JSON value. A streamed run shows it as `step.progress` of the
    /// model call and does not record it.
    ///
    /// # Panics
    /// When the value has no JSON form.
    pub fn event(self, value: impl Serialize) -> Self {
        let encoded = serde_json::to_string(&value).and_then(Encoded::from_json);
        match encoded {
            Ok(value) => self.and_said(Said::Event(value)),
            Err(error) => panic!("a scripted event has no JSON form: {error}"),
        }
    }

    /// Thinks before what was said so far.
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.said.insert(0, Said::Reasoning(vec![text.into()]));
        self
    }

    /// Gives the tool call that was added last this id.
    ///
    /// # Panics
    /// When no tool call was added before.
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

    /// What the call costs. Default: nothing.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Why the model stops. Default: `tool_calls` when it asks for tools, else `stop`.
    pub fn stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// Waits before anything is said. Needs a tokio runtime; under virtual time it costs nothing.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits before each piece but the first, and before the end. Without a reader of deltas only the waiting is seen.
    pub fn paced(mut self, pause: Duration) -> Self {
        self.pace = pause;
        self
    }

    /// Stops in the middle: what was said so far comes, the end does not, and the connection is closed.
    pub fn then_cut(mut self) -> Self {
        self.ending = Ending::Cut;
        self
    }

    /// Stops in the middle: what was said so far comes, and then nothing ever.
    pub fn then_stall(mut self) -> Self {
        self.ending = Ending::Stalled;
        self
    }

    /// Fails in the middle: what was said so far comes, and then the error.
    pub fn then_error(mut self, error: ModelError) -> Self {
        self.ending = Ending::Failed(error);
        self
    }

    /// How many pieces a stream shows before the end.
    fn piece_count(&self) -> usize {
        self.said
            .iter()
            .map(|said| match said {
                Said::Text(pieces) | Said::Reasoning(pieces) | Said::Call { arguments: pieces, .. } => pieces.len(),
                Said::Part(_) => 0,
                Said::Event(_) => 1,
            })
            .sum()
    }

    /// How long all the pauses of [`paced`](Self::paced) are, for a call that is not streamed.
    pub(crate) fn all_pauses(&self) -> Duration {
        self.pace * u32::try_from(self.piece_count()).unwrap_or(u32::MAX)
    }

    /// Gives each call that has no id the next one.
    pub(crate) fn number_calls(&mut self, next: &mut impl FnMut() -> String) {
        for said in &mut self.said {
            if let Said::Call { id: id @ None, .. } = said {
                *id = Some(next());
            }
        }
    }

    /// What a stream shows before the end.
    pub(crate) fn stream_events(&self) -> Vec<ModelEvent> {
        let mut events = Vec::with_capacity(self.piece_count());
        let mut index = 0;
        for said in &self.said {
            match said {
                Said::Text(pieces) => events.extend(pieces.iter().cloned().map(ModelEvent::Text)),
                Said::Reasoning(pieces) => events.extend(pieces.iter().cloned().map(ModelEvent::Reasoning)),
                Said::Call { id, name, arguments } => {
                    events.extend(arguments.iter().enumerate().map(|(at, piece)| {
                        let mut delta = ToolCallDelta::new(index, piece);
                        delta.id = id.clone().filter(|_| at == 0);
                        delta.name = (at == 0).then(|| name.clone());
                        ModelEvent::ToolCall(delta)
                    }));
                    index += 1;
                }
                Said::Part(_) => {}
                Said::Event(value) => events.push(ModelEvent::Progress(value.clone())),
            }
        }
        events
    }

    /// An answer that was given whole, with the state that the turn sets.
    pub(crate) fn given(self, mut response: Box<ModelResponse>) -> Box<ModelResponse> {
        save_with(&mut response, self.saves);
        response
    }

    /// The whole answer.
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

    /// The turn in a few words, to name it in a failure.
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

/// Adds state to an answer, in the form of a record, which has no constructor.
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
            Self::Call { id, name, arguments } => {
                Part::ToolCall(ToolCall::new(id.unwrap_or_default(), name, joined(arguments)).into())
            }
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
