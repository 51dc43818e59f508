//! What calls take that name an agent or a workflow, or give one: traits, so that the compiler says what to write when a
//! function is given. It finds and starts nothing.

use crate::agent::Agent;

/// The name of an agent, as [`Runtime::start_agent`](crate::Runtime::start_agent) takes it: text, borrowed.
#[diagnostic::on_unimplemented(
    message = "this is not the name of an agent",
    label = "write the name as text: `\"greeter\"` for an `#[agent]` function `greeter`",
    note = "an agent as a value starts its runs itself: `greeter::agent().runtime(&runtime).start(request)`; give what the \
            function takes to `agent(..)`"
)]
pub trait AgentName: Send {
    #[doc(hidden)]
    fn as_name(&self) -> &str;
}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + Sync + ?Sized> AgentName for &T {
    fn as_name(&self) -> &str {
        (**self).as_ref()
    }
}

/// The name of a workflow, as [`Runtime::start_named`](crate::Runtime::start_named) takes it: text, borrowed.
#[diagnostic::on_unimplemented(
    message = "this is not the name of a workflow",
    label = "write the name as text: `\"publish\"` for a `#[workflow]` function `publish`",
    note = "a `#[workflow]` function is started with its inputs by `runtime.start(publish::workflow(), inputs)`"
)]
pub trait WorkflowName: Send {
    #[doc(hidden)]
    fn as_name(&self) -> &str;
}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + Sync + ?Sized> WorkflowName for &T {
    fn as_name(&self) -> &str {
        (**self).as_ref()
    }
}

/// An agent that a runtime is given, as [`RuntimeBuilder::agent`](super::RuntimeBuilder::agent) takes it: an
/// [`Agent`](crate::Agent), borrowed.
#[diagnostic::on_unimplemented(
    message = "this is not a borrowed agent",
    label = "write `&greeter::agent()` for an `#[agent]` function `greeter`",
    note = "what the function takes stands in `agent(..)`; an `#[agent]` is known by its name without this"
)]
pub trait GivenAgent {
    /// The output of the agent.
    type Output: 'static;

    #[doc(hidden)]
    fn given(self) -> Agent<Self::Output>;
}

#[diagnostic::do_not_recommend]
impl<O: 'static> GivenAgent for &Agent<O> {
    type Output = O;

    fn given(self) -> Agent<O> {
        self.clone()
    }
}
