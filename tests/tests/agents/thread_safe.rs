//! Public types can be kept across an `.await` in a spawned task and in a handler of a web server.

use agentflow::model::anthropic::Anthropic;
use agentflow::model::gemini::Gemini;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::prelude::*;
use agentflow::{
    Caller, CallerClaims, a2a::*, a2a_server::*, access::*, agent::*, artifact::*, definition::*,
    document::*, dry_run::*, error::*, event::*, executor::*, expression::*, front::AuthRefusal,
    front::*, mailbox::*, mcp::*, mcp_server::*, memory::*, message::*, middleware::*, model::*,
    path::*, pipeline::*, resource::*, run::*, runtime::*, schema::*, server::*, session::*,
    state::*, store::*, telemetry::*, template::*, time::*, tool::*, tools::*, value::*,
    views::layout::*, views::*, workflow::*,
};
use agentflow_testing::*;
use axum::routing::get;
use futures_util::StreamExt;

fn is_send_and_sync<T: ?Sized + Send + Sync>() {}

macro_rules! all_send_and_sync {
    ($($kind:ty),* $(,)?) => {
        $(is_send_and_sync::<$kind>();)*
    };
}

/// Lists all public types of both libraries with all features. A test of `project` checks that the list is complete.
#[test]
fn public_types_are_send_and_sync() {
    all_send_and_sync![
        AccessAction, AccessRequest<'static>, BearerToken, Caller, CallerClaims, AuthRefusal, RequestHead,
        A2aAnswer, A2aArtifact, A2aArtifactUpdate, A2aCapabilities, A2aCard, A2aClient, A2aClientBuilder,
        A2aContent, A2aError, A2aErrorCode, A2aExtension, A2aInterface, A2aMessage, A2aPart, A2aProvider,
        A2aPushAuthentication, A2aPushConfig, A2aPushConfigs, A2aRelay, A2aRole, A2aSkill, A2aStatusUpdate,
        A2aStream, A2aTask, A2aTaskQuery, A2aTaskState, A2aTaskStatus, A2aTasks, A2aUpdate,
        A2aServer, A2aServerError, MistakeResource, ProblemDocument, Server, ServerError,
        Agent<String>, AgentDefinition, AgentOutline, AgentSettings, AgentTool<String>, ErasedAgent, Hooks, LargeOutputs, Limits, RunRequest,
        Team<String>, ToolOutline,
        Artifact, ArtifactRef,
        Context,
        Changes, Definition, Difference, Presence,
        Document, DocumentError, DocumentForm, ExportError, FolderError, UnknownForm,
        DryBody, DryCall, DryIssue, DryRead, DryRun, DryStateRead, DryStep,
        ControlError, ControlErrorKind, Error, RegistryError,
        AgentCompleted, AgentHandoff, AgentStarted, AnswerForm, ApprovalRequest, DocumentVersion, Edge, Event, EventKind,
        JsonlSink, LiveTerms, ModelDelta, NotUndone, PauseReason, QueuedSink, Redefined, RunAdvanced, RunBody,
        RunCompleted, RunId, RunStarted, RunTerms, SessionArtifact, SessionPlace, SessionSummarized,
        SessionWindow, Shape, Spending, StdoutSink, Subject, Summary, ToolWaiting, UnknownEvent, WhenFull,
        WorkflowCompleted, WorkflowStarted,
        ExecutorError, ExecutorErrorKind, StepAnswer, StepBatch, StepCall, StepDelivery, StepEnd, StepHost,
        StepOutcome, StepSignal,
        Expression, ExpressionError,
        Failure, FailureClass, FailureProblem,
        Mail<String>, Mailbox<String>,
        McpAuthorization, McpClient, McpClientBuilder, McpConfig, McpContent, McpError, McpHealth,
        McpLoginFolder, McpPrompt, McpPromptArgument, McpResource, McpResourceTemplate,
        ClientFolder, ClientFolders, ClientReply, McpHttpBody, McpHttpService, McpServer,
        McpServerError, PromptArguments, ResourceRead, ServedContent, ServedPrompt, ServedResource,
        InProcessMemory, MemoryEntry, MemoryNote, MemoryQuery, SqliteMemory, UserMemory,
        Conversation, Media, Message, Part, Reasoning, ResourceLink, Role, ToolCall, ToolContent, ToolPart,
        ToolResult, ToolStatus,
        AgentStep, Attempt, Cache, CircuitBreaker, Cost, CostTracker, FallbackModels, Flow<String>, MemoryCache,
        ModelStep, Price, Prices, RateLimit, Recovery, Retry, RunInfo, Scope, TokenBudget, ToolStep,
        Anthropic, EnvSecrets, Gemini, HttpModelBuilder<Anthropic>, HttpSettings, ModelError, ModelErrorKind,
        ModelEvent, ModelInfo, ModelProvider, ModelRef, ModelRefError, ModelRequest, ModelResponse,
        ModelSettings, ModelSource, OpenAiChat, OpenAiResponses, OutputMode, OutputSchema, PromptCache, Secret,
        StopReason, TimeoutKind, ToolCallDelta, ToolChoice, Usage,
        OnTimeout,
        StepPath, StepPathError,
        Choice, Pipeline, PipelineError, Until,
        Inject<String>, ResourceKey, Resources,
        Approval, ControlCall<'static>, Events, Redact, Redactor, RunHandle<RunResult>, RunResult<String>, RunStream<String>,
        AttemptReport, BootError, BootPhase, CallReport, CallerMemory, CallerRuns<'static>, CallerRuntime, CallerSessions<'static>, Catalogue, CatalogueEntry, CompensationReport, ControlReport,
        A2aAgentSettings, AlertSettings, ApiToolSettings, ConfigError, ConfigProblem, HttpRequestSettings,
        McpServerSettings, ProviderSettings, StorageSettings, ToolSettings, Deleted, DocumentWatch, Drained, EntryKind, Health, NodeReport, NodeStatus, OpenQuestion,
        CallerDocuments<'static>, CatalogueReader<'static>, Documents<'static>, DocumentsError, PutDocument<'static>, RemoveDocument<'static>, Memories<'static>, PersistentState<'static>,
        RunRef<'static>, Worker, Runs<'static>, Sessions<'static>,
        ItemCounts, Origin, Purge, Recovered, Reloaded, RunGraph, RunGraphNode, RunReport, Runtime, RuntimeBuilder, RuntimeConfig, StartRun<'static,
        String>, UndoReport, UndoStatus,
        Assignable, SchemaMismatch,
        Session, SessionExport, SessionRun,
        SavedByStep, StateKey<String>, StateKeyError, StateMerge, StateOwner, StateTransform, StateValues,
        Answered, Append, ArtifactCheck, Epoch, EventFilter, MemoryStore, MessageId, PostgresStore, PostgresStoreBuilder, RecordedQuestion, RecordedQuestions, RunFilter, RunList, RunOrder, RunRecord,
        RunStatus, SessionFilter, SessionRecord, Snapshot, SqliteStore, SqliteStoreBuilder, StateWrite,
        DocumentChange, DocumentCommit, DocumentLimitError, DocumentRecord, DocumentWrite, ExpectedVersion, StoredDocument,
        StoreAddress, UnknownRunStatus, StoreError, StoreErrorKind, StoreMessage, Synchronous,
        MetricsSink,
        Placeholder, Template, TemplateError,
        SystemClock, Timestamp,
        FnTool, Registry, ToolError, ToolFuture<'static>, ToolList, ToolOutput, ToolRef, ToolsetRef,
        QuestionAnswer, UserQuestion, WaitingCall,
        Effects, SourceLocation, ToolDefinition, ToolManifest, ToolPolicy,
        AddressGuard, Alert, ApiAccess, ApiAuth, ApiParameter, ApiTool, ApiToolError, GraphqlTool, HttpRequest,
        OpenApi, Paging, ParameterPlace, Programs, Storage,
        Encoded,
        Area, Diagram, DiagramEdge, DiagramGroup, DiagramLayout, DiagramNode, DiagramPoint, DiagramStatus,
        LayoutDirection, LayoutOptions, LinkKind, NodeShape, PlacedEdge, PlacedGroup, PlacedLabel, PlacedNode,
        PlacedText, SvgWriter,
        AgentEvent, AgentEvents, Rfc3339, ScreenEvent, ScreenEvents, TaskAgent, TaskAgentConfig, TaskChunkKind, TaskChunks,
        TaskContent, TaskExecution, TaskFramework, TaskMessage, TaskRequest, TaskRequestError,
        TaskRequestMessage, TaskResult, TaskRole, TaskStart, TaskStatus, TaskStreamChunk, TaskText,
        TaskTextPart, TaskUser,
        Branch<String>, Builder, Condition, Decider, DisplayEdge, DisplayEdgeKind, Graph, GraphBody, GraphEdge, GraphNode, Guard,
        Handle<String>, Mapping, NextNode, Node, NodeDecision, NodeEdge, NodePolicy, OnError, OrderEdge,
        Question, Reference, ReferenceKind, ResolvedDependency, RetryPolicy, Route, Router, Routes, RunLimits, StopPolicy,
        Workflow<String, String>, WorkflowTool,
        A2aTurn, Again, Call, Calls, Cassette, CassetteError, CrashReport, CrashTest, EffectLog, EventProblems,
        ExpectedQuestion, HoldsTime<MemoryStore>, Interruption, KillReport, McpAnswer, Mocks, RecordedToolCall,
        FakeProvider, FakeReply, ProviderFormat, ScriptedA2a, ScriptedMcp, ScriptedModel, StepReport, StoreCheck, StorePart, TestClock, Totals, Turn,
        AskUser, Begins, MemoryTool, ModelStream, NodeKind, NodeSchema, OrderReason, Param, ParamType, ReplacedCall<'static>,
        ReplacedError, ReplacedKind, RunBeginning,
    ];
}

async fn watched(agent: Agent) -> Result<String> {
    let mut run = agent.stream("hello")?;
    let mut events = 0;
    while let Some(event) = within("the next event", run.next()).await {
        events += usize::from(event.seq > 0);
    }
    Ok(format!("{} after {events} events", run.result().await?.output()))
}

fn greeter() -> Agent {
    Agent::new(ScriptedModel::new([Turn::text("good morning")])).runtime(&test_runtime().build())
}

#[tokio::test]
async fn a_stream_is_read_in_a_spawned_task() {
    let text = tokio::spawn(watched(greeter())).await.unwrap().unwrap();
    assert!(text.starts_with("good morning after "), "{text}");
}

#[tokio::test]
async fn a_stream_is_read_in_a_handler_of_axum() {
    let handler = || async { watched(greeter()).await.unwrap_or_else(|error| error.to_string()) };
    let _: axum::Router = axum::Router::new().route("/", get(handler));
    let response =
        axum::handler::Handler::call(handler, axum::extract::Request::default(), ()).await;
    assert_eq!(response.status(), 200);
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    assert!(body.starts_with(b"good morning after "), "{body:?}");
}
