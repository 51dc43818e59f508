//! Every form of a workflow, and an agent, stopped at every write of its journal and taken up again.

use std::time::Duration;

use agentflow::serde_json::json;
use agentflow::{
    Agent, Approval, Branch, Builder, Effects, FnTool, Handle, Interruptible, Node, NodePolicy, OnError, RetryPolicy,
    Role, StopPolicy, ToolRef, Workflow,
};
use agentflow_testing::{Again, CrashTest, EffectLog, Interruption, ScriptedModel, Turn};

type Step<T> = Result<T, String>;
