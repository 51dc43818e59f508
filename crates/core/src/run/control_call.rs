//! `ControlCall`: a control request that is about to be made, with the operator who makes it.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use super::control_request::ControlRequest;
use crate::error::Result;
use crate::future::BoxFuture;

/// Makes a request for an operator.
type Ask<'a> = Box<dyn FnOnce(ControlRequest, Option<Arc<str>>) -> BoxFuture<'a, Result<()>> + Send + Sync + 'a>;

/// A control request to a run that is made when this is awaited: pause, unpause, cancel, close or a message. Returned by
/// [`Runtime::pause`](crate::Runtime::pause), [`RunHandle::pause`](crate::RunHandle::pause) and the like.
///
/// ```
/// use agentflow::event::EventKind;
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let run = Agent::new(ScriptedModel::new([Turn::stall()])).start("Write a letter.")?;
/// run.cancel("no longer needed").by("ada").await?;
/// let Some(EventKind::RunCancelled { by, .. }) = run.recorded().pop().map(|event| event.kind) else { panic!() };
/// assert_eq!(by.as_deref(), Some("ada"));
/// # Ok(())
/// # }
/// ```
///
/// Dropped before it is awaited, nothing is asked. Dropping the future leaves open whether the request has its effect.
#[must_use = "nothing is asked of the run before this is awaited"]
pub struct ControlCall<'a> {
    request: Result<ControlRequest>,
    by: Option<Arc<str>>,
    ask: Ask<'a>,
}

impl<'a> ControlCall<'a> {
    pub(crate) fn new(
        request: Result<ControlRequest>,
        ask: impl FnOnce(ControlRequest, Option<Arc<str>>) -> BoxFuture<'a, Result<()>> + Send + Sync + 'a,
    ) -> Self {
        Self { request, by: None, ask: Box::new(ask) }
    }

    /// Names the operator who asks: recorded in the event that grants the request, as `by`. Default: none is recorded.
    pub fn by(mut self, operator: impl Into<Arc<str>>) -> Self {
        self.by = Some(operator.into());
        self
    }
}

impl<'a> IntoFuture for ControlCall<'a> {
    type Output = Result<()>;
    type IntoFuture = BoxFuture<'a, Result<()>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { request, by, ask } = self;
        match request {
            Ok(request) => ask(request, by),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl fmt::Debug for ControlCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = self.request.as_ref().map(ControlRequest::done);
        f.debug_struct("ControlCall").field("request", &request).field("by", &self.by).finish_non_exhaustive()
    }
}
