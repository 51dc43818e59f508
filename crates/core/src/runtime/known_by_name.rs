//! Traits for parameters that name an agent or a workflow, or take a borrowed agent. They exist for
//! their diagnostics: if a function is passed instead, the compiler suggests the correct code.

use crate::agent::Agent;

/// Name of an agent, for [`Runtime::start_agent`](crate::Runtime::start_agent): borrowed text.
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

/// Name of a workflow, for [`Runtime::start_named`](crate::Runtime::start_named): borrowed text.
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

/// An agent to register, for [`RuntimeBuilder::agent`](super::RuntimeBuilder::agent): a borrowed
/// [`Agent`](crate::Agent).
#[diagnostic::on_unimplemented(
    message = "this is not a borrowed agent",
    label = "write `&greeter::agent()` for an `#[agent]` function `greeter`",
    note = "what the function takes stands in `agent(..)`; an `#[agent]` is known by its name without this"
)]
pub trait GivenAgent {
    /// Output type of the agent.
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
