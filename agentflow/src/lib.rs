#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod agent;
mod context;
pub mod error;
pub mod event;
mod failure;
mod linked;
mod mask;
pub mod message;
pub mod middleware;
pub mod model;
pub mod path;
pub mod resource;
pub mod run;
pub mod runtime;
pub mod store;
mod strict;
pub mod telemetry;
mod text;
pub mod time;
pub mod tool;
mod tool_definition;
mod tuples;
pub mod value;
mod wire;
pub mod workflow;

#[doc(hidden)]
#[allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]
pub mod __private;
#[cfg(feature = "cli")]
pub mod cli;

#[doc = include_str!("docs/agent.md")]
pub use agentflow_macros::agent;
#[doc = include_str!("docs/tool.md")]
pub use agentflow_macros::tool;
#[doc = include_str!("docs/workflow.md")]
pub use agentflow_macros::workflow;
#[doc(no_inline)]
pub use async_trait::async_trait;
#[cfg(feature = "metrics")]
#[doc(no_inline)]
pub use opentelemetry;
#[doc(no_inline)]
pub use schemars;
#[doc(no_inline)]
pub use serde;
#[doc(no_inline)]
pub use serde_json;

pub use crate::agent::{Agent, AgentDefinition, Callbacks, Limits, RunRequest};
pub use crate::context::Context;
pub use crate::error::{
    ControlError, ControlErrorKind, Error, Failure, FailureClass, FailureKind, RegistryError, Result,
};
pub use crate::event::{
    AgentCompleted, AgentStarted, ApprovalRequest, Event, EventKind, EventSink, JsonlSink, ModelDelta, PauseReason,
    Redefined, RunBody, RunCompleted, RunId, RunStarted, RunTerms, Spending, StdoutSink, WorkflowCompleted,
    WorkflowStarted,
};
pub use crate::message::{Conversation, Media, Message, Part, Reasoning, Role, ToolCall, ToolResult, ToolStatus};
#[cfg(feature = "anthropic")]
pub use crate::model::anthropic;
#[cfg(feature = "gemini")]
pub use crate::model::gemini;
#[cfg(feature = "openai-chat")]
pub use crate::model::openai_chat;
#[cfg(feature = "openai-responses")]
pub use crate::model::openai_responses;
pub use crate::model::{
    BoxFuture, EnvSecrets, Model, ModelError, ModelErrorKind, ModelEvent, ModelInfo, ModelProvider, ModelRef,
    ModelRefError, ModelRequest, ModelResponse, ModelSettings, ModelSource, ModelStream, OutputMode, OutputSchema,
    Secret, SecretProvider, StopReason, TimeoutKind, ToolCallDelta, ToolChoice, Usage,
};
#[cfg(feature = "http")]
pub use crate::model::{HttpModel, HttpModelBuilder, HttpSettings};
pub use crate::path::{StepPath, StepPathError};
pub use crate::resource::{Inject, ResourceKey, Resources};
pub use crate::run::{Approval, Events, RunHandle, RunResult, RunStream};
pub use crate::runtime::{NodeReport, NodeStatus, Recovered, RunReport, Runtime, RuntimeBuilder};
pub use crate::store::{
    Answered, Append, Epoch, MemoryStore, MessageId, RunFilter, RunList, RunRecord, RunStatus, Snapshot, Store,
    StoreError, StoreErrorKind, StoreLayer, StoreMessage,
};
#[cfg(feature = "sqlite")]
pub use crate::store::{SqliteStore, SqliteStoreBuilder, Synchronous};
#[cfg(feature = "metrics")]
pub use crate::telemetry::MetricsSink;
pub use crate::time::{Clock, SystemClock, Timestamp};
pub use crate::tool::{
    Effects, FnTool, Registry, SourceLocation, Tool, ToolDefinition, ToolError, ToolFuture, ToolManifest, ToolOutput,
    ToolParam, ToolPolicy, ToolRef,
};
pub use crate::value::{Encoded, NodeValue};
pub use crate::workflow::{
    Branch, Builder, Graph, GraphNode, Guard, Handle, Inputs, IntoInputs, Node, NodeKind, NodePolicy, NodeSchema,
    OnError, Reads, RetryPolicy, Router, StepFailure, StopPolicy, Workflow,
};

/// What most programs need: `use agentflow::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Agent, Approval, Callbacks, Context, Inject, Message, Model, Runtime, agent, fallback, gate, map, race, repeat,
        timeout, tool, tools, workflow,
    };
}
