//! Calls of `#[tool]` functions inside a workflow step, in any position of the step's code.
//!
//! Here a call gets its step, its arguments and the journal's records of it.
//! `matched_tool_call.rs` then decides whether it is made, and `execution/` makes it.
//!
//! A `#[tool]` function first looks for the current step. Outside of a step it is a plain function
//! call and does not use this module. A step that consists of a single call uses this module only
//! if the call needs separate events.

use std::any::TypeId;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::call_checks::scope_refusal;
use super::call_forms::{ArgumentCopies, ArgumentForm, ChangedArguments, DenialForm};
use super::call_record::Forms;
use super::history::{RecordedCall, arguments_of};
use super::matched_tool_call::MatchedToolCall;
use super::step_place::{CurrentStep, StepEndPanic, ValueScope};
use super::tool_body_place::ToolBodyScope;
use super::{ReplacedKind, StandIn, ToolDefinition, ToolError, ToolOutput, ToolPolicy};
use crate::context::{Context, PreviousCallAttempts};
use crate::event::EventKind;
use crate::failure::{Failure, FailureKind};
use crate::message::ToolCall;
use crate::middleware::ToolHooks;
use crate::run::Host;
use crate::tool_definition::Effects;

/// The answer of a tool, made from the value that its function returned.
pub(crate) type ToolAnswer = Result<ToolOutput, ToolError>;

/// A call of a `#[tool]` function, together with the step that makes it.
pub struct StepToolCall(CallPlace);

enum CallPlace {
    Step(StepCall),
    /// The computation of a value, with the failure that ends it. Used only if panics abort.
    Value(Failure),
}

/// A call with its arguments.
pub struct GivenToolCall(GivenPlace);

#[expect(
    clippy::large_enum_variant,
    reason = "a value is rare; a box would cost each call in a step"
)]
enum GivenPlace {
    Step(MatchedToolCall),
    Value(Failure),
}

/// A call in a step.
pub(super) struct StepCall {
    place: Arc<CurrentStep>,
    function: TypeId,
    definition: Arc<ToolDefinition>,
    /// The refusal if the step lacks a scope that the tool requires.
    refused: Option<ToolError>,
    /// `true` if the step consists of this call only.
    direct: bool,
    hooks: Option<ToolHooks>,
    /// The replacement to call instead of the function.
    stand_in: Option<StandIn>,
}

impl StepToolCall {
    /// Finds the step that makes the call. Returns `None` outside of a step, and if the step
    /// consists of this call and the call needs no separate events.
    pub fn announced(
        function: TypeId,
        definition: impl Fn() -> Arc<ToolDefinition>,
    ) -> Option<Self> {
        let place = match CurrentStep::current() {
            Some(place) => place,
            None => {
                if let Some(place) = ValueScope::current() {
                    let failure = refusal_in_value(&definition(), &place)?;
                    return Some(Self(CallPlace::Value(place.end(failure))));
                }
                ToolBodyScope::for_call(&definition)?
            }
        };
        let definition = definition();
        let refused = missing_scope(&place.cx, &definition);
        let direct = place.takes_direct(function);
        let is_plain = direct && refused.is_none();
        // `CurrentStep::of_call` already entered this call; the tool's own function is called below
        // it.
        if is_plain && place.is_call() {
            return None;
        }
        if is_plain && !call_has_events(place.cx.host(), &definition) {
            return None;
        }
        let hooks = ToolHooks::of_host(place.cx.host());
        let stand_in = StandIn::of(place.cx.host(), ReplacedKind::Tool, &definition.name);
        let call = StepCall { place, function, definition, refused, direct, hooks, stand_in };
        Some(Self(CallPlace::Step(call)))
    }

    /// Adds the arguments and finds the journal's records of the call.
    pub fn given<const N: usize>(
        self,
        arguments: [(&'static str, ArgumentForm); N],
    ) -> GivenToolCall {
        let call = match self.0 {
            CallPlace::Step(call) => call,
            CallPlace::Value(failure) => return GivenToolCall(GivenPlace::Value(failure)),
        };
        let mut object = Map::new();
        let mut known = true;
        for (name, form) in arguments {
            match form {
                ArgumentForm::Json(json) => {
                    object.insert(name.to_owned(), serde_json::from_str(&json).unwrap_or_default());
                }
                ArgumentForm::Injected => {}
                ArgumentForm::Unknown => known = false,
            }
        }
        let arguments = if known { Value::Object(object) } else { Value::Null };
        GivenToolCall(GivenPlace::Step(call.known(arguments)))
    }
}

impl GivenToolCall {
    /// Calls an `async` tool.
    pub async fn run<A, O, F, T>(
        self,
        resources: Option<Context>,
        arguments: A,
        ways: ArgumentCopies<A>,
        body: F,
        forms: Forms<O>,
    ) -> O
    where
        A: Send,
        F: Fn(Context, A) -> T + Send,
        T: Future<Output = (O, ToolAnswer)>,
    {
        match self.0 {
            GivenPlace::Step(call) => call.run(resources, arguments, ways, body, forms).await,
            // The future of an `async` tool is polled by code that computes a value, so the value
            // never waits for it.
            GivenPlace::Value(_) => std::future::pending().await,
        }
    }

    /// Calls a non-`async` tool.
    pub fn run_now<A: Send, O>(
        self,
        resources: Option<Context>,
        arguments: A,
        changed: fn(A, &mut ChangedArguments) -> A,
        body: impl FnOnce(Context, A) -> (O, ToolAnswer) + Send,
        forms: Forms<O>,
        denial: DenialForm<O>,
    ) -> O {
        match self.0 {
            GivenPlace::Step(call) => {
                call.run_now(resources, arguments, changed, body, forms, denial)
            }
            GivenPlace::Value(failure) => match denial(failure.clone()) {
                Some(value) => value,
                None => StepEndPanic::unwind(failure),
            },
        }
    }
}

impl StepCall {
    /// Creates the call to a tool that was found by its name. Returns `None` outside of a step.
    #[cfg(feature = "dynamic")]
    pub(super) fn by_name(
        function: Option<TypeId>,
        definition: Arc<ToolDefinition>,
    ) -> Option<Self> {
        let place = CurrentStep::current()?;
        let hooks = ToolHooks::of_host(place.cx.host());
        let stand_in = StandIn::of(place.cx.host(), ReplacedKind::Tool, &definition.name);
        // A tool without a Rust function gets an id that no function has.
        let function = function.unwrap_or(TypeId::of::<Self>());
        let refused = missing_scope(&place.cx, &definition);
        // A call that needs an approval has its own record. Any other call is recorded by the node.
        let direct = !definition.policy.approve;
        Some(Self { place, function, definition, refused, direct, hooks, stand_in })
    }

    /// Adds the arguments as JSON and finds the journal's records of the call.
    pub(super) fn known(self, arguments: Value) -> MatchedToolCall {
        let Self { place, function, definition, refused, direct, hooks, stand_in } = self;
        // The journal holds redacted arguments, so the records are matched by the redacted form.
        let recorded = redacted_arguments(&place, &definition, &arguments);
        let mut known = place.with_calls(|calls| {
            calls.history.take(&calls.base, &definition.name, &recorded, &definition.policy)
        });
        // An unfinished call was stopped and has not failed, so it does not count as a failed
        // attempt.
        let recorded = || known.here.iter().chain(&known.earlier);
        let before = PreviousCallAttempts {
            key: None,
            paths: recorded().flat_map(RecordedCall::paths).collect(),
            failed: recorded().any(|call| call.begun.is_some() && !call.is_unfinished()),
        };
        if direct {
            // The node has already decided about its earlier attempts.
            known.earlier = None;
        }
        MatchedToolCall {
            place,
            function,
            definition,
            refused,
            arguments,
            known,
            before,
            direct,
            hooks,
            stand_in,
        }
    }
}

/// Returns `true` if a call that is the whole node needs events in addition to the node's.
///
/// This is the case if the runtime records all calls, if middleware or a replacement is involved,
/// or if the tool has a compensation, whose arguments a node does not record.
pub(crate) fn call_has_events(host: &Host, definition: &ToolDefinition) -> bool {
    host.records_calls
        || definition.policy.compensate.is_some()
        || ToolHooks::of_host(host).is_some()
        || StandIn::of(host, ReplacedKind::Tool, &definition.name).is_some()
}

/// Returns the refusal of a call in a step that lacks a scope of the tool. The step fails with it
/// even if the function returns no `Result`.
pub(crate) fn missing_scope(cx: &Context, definition: &ToolDefinition) -> Option<ToolError> {
    scope_refusal(definition, cx.grants(), definition.catalogue_name())
}

/// Returns a failure if a tool that needs a record, an approval, a scope or a hook is called while
/// a value is computed. Values are not recorded.
fn refusal_in_value(definition: &ToolDefinition, place: &ValueScope) -> Option<Failure> {
    let ToolDefinition { name, policy, .. } = definition;
    let writes = policy.effects == Effects::Write;
    let why = match policy {
        ToolPolicy { approve: true, .. } => "needs a person's approval",
        _ if writes => "writes",
        ToolPolicy { scopes, .. } if !scopes.is_empty() => "needs a scope",
        _ if place.hooked => "is watched by this runtime's middleware",
        _ if place.replaced.as_ref().is_some_and(|replaced| replaced.has(name)) => {
            "is replaced in this runtime"
        }
        _ => return None,
    };
    let declared = match writes {
        true => {
            ". A tool that changes nothing says so with `effects = \"none\"` or `effects = \"read\"`"
        }
        false => "",
    };
    let message = format!(
        "`{name}` {why}, and a function calls it of which a value is computed; call `{name}` itself in the `let`, or make \
         that function `async` and await it{declared}"
    );
    Some(Failure::new(FailureKind::Build, message))
}

/// Returns the arguments in the form that the journal has after redaction.
fn redacted_arguments(
    place: &CurrentStep,
    definition: &ToolDefinition,
    arguments: &Value,
) -> Value {
    let Some(redactor) = &place.cx.host().redactor else { return arguments.clone() };
    let call = Arc::new(ToolCall::new("", &*definition.name, arguments.to_string()));
    match redactor.event(EventKind::ToolStarted {
        call,
        effects: Effects::None,
        idempotent: true,
        given: None,
        compensate: None,
    }) {
        EventKind::ToolStarted { call, .. } => arguments_of(&call),
        _ => Value::Null,
    }
}
