//! `ErasedAgent`: an agent of any output type, as a runtime knows it by its name. It describes and runs nothing.

use std::fmt;
use std::sync::Arc;

use super::Agent;
use super::run_request::RunRequest;
use crate::context::Context;
use crate::error::Result;
use crate::future::BoxFuture;
use crate::run::{Host, RunHandle, RunShared};
use crate::value::Encoded;

/// An agent whose output is JSON.
#[derive(Clone)]
pub struct ErasedAgent(Arc<dyn Erased>);

trait Erased: Send + Sync {
    fn name(&self) -> &Arc<str>;
    fn continued(&self, host: &Arc<Host>, shared: Arc<RunShared>) -> Result<RunHandle<Encoded>>;
    fn run_in(&self, cx: &Context, request: RunRequest) -> BoxFuture<'static, Result<Encoded>>;
    fn writes(&self) -> bool;
}

impl<O: 'static> Erased for Agent<O> {
    fn name(&self) -> &Arc<str> {
        &self.description.name
    }

    fn continued(&self, host: &Arc<Host>, shared: Arc<RunShared>) -> Result<RunHandle<Encoded>> {
        Ok(self.clone().host(host).continued(shared)?.untyped())
    }

    fn run_in(&self, cx: &Context, request: RunRequest) -> BoxFuture<'static, Result<Encoded>> {
        let (agent, cx) = (self.clone(), cx.clone());
        Box::pin(async move { agent.end_in(&cx, request).await?.encoded() })
    }

    fn writes(&self) -> bool {
        self.plan().map_or(true, |plan| plan.writes())
    }
}

impl ErasedAgent {
    pub(crate) fn new<O: 'static>(agent: Agent<O>) -> Self {
        Self(Arc::new(agent))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.0.name()
    }

    /// Runs it as a step of the run that a context belongs to. It is asked a text, or any other value as JSON.
    pub(crate) async fn run_in(&self, cx: &Context, asked: &Encoded) -> Result<Encoded> {
        let text = asked.decode::<String>().unwrap_or_else(|_| asked.to_string());
        self.0.run_in(cx, RunRequest::new(text)).await
    }

    /// Whether one of its tools changes something outside of the run.
    pub(crate) fn writes(&self) -> bool {
        self.0.writes()
    }

    /// Continues a run whose journal is in the log.
    pub(crate) fn continued(&self, host: &Arc<Host>, shared: Arc<RunShared>) -> Result<RunHandle<Encoded>> {
        self.0.continued(host, shared)
    }
}

impl fmt::Debug for ErasedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ErasedAgent").field(self.name()).finish()
    }
}
