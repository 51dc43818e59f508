//! `ControlCall`: a control request that was not sent yet, with the operator who sends it.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use super::control_request::ControlRequest;
use crate::error::Result;
use crate::future::BoxFuture;

/// Sends a request on behalf of an operator.
type SendRequest<'a> = Box<
    dyn FnOnce(ControlRequest, Option<Arc<str>>) -> BoxFuture<'a, Result<()>> + Send + Sync + 'a,
>;

/// A control request to a run (pause, unpause, cancel, close or a message) that is sent when the
/// value is awaited. Returned by methods such as [`RunRef::pause`](crate::runtime::RunRef::pause) and
/// [`RunHandle::pause`](crate::RunHandle::pause).
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
/// # Cancel safety
/// A `ControlCall` that is dropped before it is awaited does not send the request. If its future is
/// dropped, the request may or may not take effect.
#[must_use = "nothing is asked of the run before this is awaited"]
pub struct ControlCall<'a> {
    request: Result<ControlRequest>,
    by: Option<Arc<str>>,
    ask: SendRequest<'a>,
}

impl<'a> ControlCall<'a> {
    pub(crate) fn new(
        request: Result<ControlRequest>,
        ask: impl FnOnce(ControlRequest, Option<Arc<str>>) -> BoxFuture<'a, Result<()>>
        + Send
        + Sync
        + 'a,
    ) -> Self {
        Self { request, by: None, ask: Box::new(ask) }
    }

    /// Sets the operator, recorded as `by` in the event that grants the request. By default, no
    /// operator is recorded.
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
        f.debug_struct("ControlCall")
            .field("request", &request)
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}
