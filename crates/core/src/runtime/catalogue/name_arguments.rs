//! Names and addresses of items. The traits for names exist for their diagnostics: if a function is
//! passed instead of a name, the compiler suggests the correct code.

use crate::agent::Agent;
use crate::run::Host;
use crate::tool::ToolRef;
use std::any::Any;

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

/// An agent to register, for [`RuntimeBuilder::agent`](crate::runtime::RuntimeBuilder::agent): a
/// borrowed [`Agent`](crate::Agent).
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

/// Settings that extensions keep in a runtime, one value for each type.
#[derive(Clone, Copy)]
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "for the other crates of the workspace")]
pub struct RuntimeParts<'h>(pub(crate) &'h Host);

impl<'h> RuntimeParts<'h> {
    /// Returns the value of a type.
    pub fn get<T: Any + Send + Sync>(self) -> Option<&'h T> {
        self.0.part::<T>()
    }
}

/// Error of an address.
type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Finds the tool behind an address, such as the address of an agent of another program. The linker
/// collects the entries.
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "for the other crates of the workspace")]
pub struct ToolAddresses {
    /// Returns `None` for a name that is not an address of this kind. It connects to nothing.
    pub tool: fn(RuntimeParts<'_>, &str) -> Option<Result<ToolRef, BoxedError>>,
}

inventory::collect!(ToolAddresses);
