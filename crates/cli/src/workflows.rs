//! `agentwf workflow`: lists, shows and runs the workflows of this program.

use agentflow_schema::schema::words;
use agentflow_schema::text::OneLine;
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::oneshot;

use super::args::{GraphFormat, RunStartArgs, WorkflowRunArgs, WorkflowViewCommand};
use super::print::{Answer, BOLD, DIM, Stop, line, note, print_json};
use super::runs::operator;
use super::tree::Tree;
use super::workflow_as_task::named;
use super::{ctrl_c, runs, validate, workflow_diff};
use agentflow_core::__private::extension::{ListedNode, question_of};
use agentflow_core::document::DocumentForm;
use agentflow_core::dry_run::DryRun;
use agentflow_core::error::{Error, FailureKind};
use agentflow_core::event::{EventKind, RunId};
use agentflow_core::run::RunHandle;
use agentflow_core::runtime::{EntryKind, RunReport, Runtime, StartRun};
use agentflow_core::store::StoreAddress;
use agentflow_core::value::Encoded;
use agentflow_core::workflow::{Graph, GraphNode, NodeKind};
use agentflow_views::layout::SvgWriter;

pub(super) async fn view(host: &Runtime, command: WorkflowViewCommand) -> Result<(), Stop> {
    match command {
        WorkflowViewCommand::List { json, documents } => {
            let with_documents = validate::with(host, &documents)?;
            let listed = list(&with_documents.host, json).await;
            let reported = with_documents.report_mistakes();
            listed.and(reported)
        }
        WorkflowViewCommand::Show { name, mut documents, format } => {
            let name = named(&name, &mut documents.documents)?;
            show(&validate::load_documents_for(host, &documents, &name).await?, &name, format).await
        }
        WorkflowViewCommand::Validate(args) => validate::validate(host, &args).await,
        WorkflowViewCommand::DryRun(mut args) => {
            let name = named(&args.name, &mut args.documents.documents)?;
            let host = validate::load_documents_for(host, &args.documents, &name).await?;
            let dry = host.catalogue().dry_run(&name).await?;
            if args.json { print_json(&dry) } else { super::tools::dry_run(&dry) }
        }
        WorkflowViewCommand::Diff(args) => workflow_diff::diff(host, &args).await,
        WorkflowViewCommand::Export(mut args) => {
            args.name = named(&args.name, &mut args.documents.documents)?;
            validate::export(host, &args)
        }
        WorkflowViewCommand::Schema { form } => {
            print_json(&form.map_or_else(DocumentForm::schema_of_all, DocumentForm::schema))
        }
    }
}

async fn list(host: &Runtime, json: bool) -> Result<(), Stop> {
    // Also fetches the tools that graphs name.
    let catalogue = host.catalogue().snapshot().await;
    // If a workflow cannot be built, the others are still listed.
    let (workflows, failed) = match host.catalogue().workflows() {
        Ok(workflows) => (workflows, None),
        Err(error) => {
            let names = catalogue.of_kind(EntryKind::Workflow).map(|entry| &*entry.name);
            (
                names.filter_map(|name| host.catalogue().workflow_graph(name).ok()).collect(),
                Some(error),
            )
        }
    };
    let failed = failed.map_or(Ok(()), |error| Err(error.into()));
    let origin = |graph: &Graph| {
        catalogue.get(EntryKind::Workflow, &graph.name).ok().map(|entry| &entry.origin)
    };
    if json {
        let with_origin = |graph: &Graph| {
            let mut json = graph.to_json();
            json["origin"] = json!(origin(graph));
            json["definition"] = graph.hash().into();
            json
        };
        print_json(&workflows.iter().map(with_origin).collect::<Vec<_>>())?;
        return failed;
    }
    for graph in &workflows {
        let inputs =
            graph.inputs().map(|input| format!("{}: {}", input.name, type_of(input, None)));
        let inputs: Vec<String> = inputs.collect();
        line(format_args!(
            "{BOLD}{}{BOLD:#}({})",
            OneLine(&graph.name),
            OneLine(inputs.join(", "))
        ))?;
        if let Some(first) = graph.description.lines().find(|line| !line.trim().is_empty()) {
            line(format_args!("    {}", OneLine(first.trim())))?;
        }
        if let Some(origin) = origin(graph) {
            line(format_args!("    {DIM}{}, definition {}{DIM:#}", OneLine(origin), graph.hash()))?;
        }
    }
    if workflows.is_empty() && failed.is_ok() {
        note(
            "this program has no workflows; they are linked into a program that calls `agentflow::cli::run()`",
        );
    }
    failed
}

/// Removes module paths from a Rust type: `Vec<Note>` for `alloc::vec::Vec<my::Note>`.
fn short_type(name: &str) -> String {
    let mut short = String::new();
    for part in name.split_inclusive(['<', '>', ',', ' ', '(', ')', '[', ']', ';', '&']) {
        short.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    short
}

/// Returns the type of a node's output: its Rust type, or a description of its schema as in
/// `dry-run`.
fn type_of(node: &GraphNode, dry: Option<&DryRun>) -> String {
    if node.type_name != DATA {
        return short_type(&node.type_name);
    }
    let derived = dry.and_then(|dry| dry.step(&node.name)).map(|step| step.gives.clone());
    let schema = derived.unwrap_or_else(|| node.schema.to_value());
    words(&schema, &schema)
}

/// Type name of an output without a Rust type.
const DATA: &str = "json";

async fn show(host: &Runtime, name: &str, format: Option<GraphFormat>) -> Result<(), Stop> {
    drop(host.catalogue().fetch_toolsets_of(name).await);
    let graph = host.catalogue().workflow_graph(name)?;
    match format {
        Some(GraphFormat::Mermaid) => line(graph.to_mermaid().trim_end()),
        Some(GraphFormat::Dot) => line(graph.to_dot().trim_end()),
        Some(GraphFormat::Svg) => {
            let layout = agentflow_views::workflow_diagram(&graph).layout();
            line(SvgWriter::new().write(&layout).trim_end())
        }
        Some(GraphFormat::Json) => print_json(&graph),
        Some(GraphFormat::DryRun) => super::tools::dry_run(&host.catalogue().dry_run(name).await?),
        None => outline(&graph, &host.catalogue().dry_run(name).await?),
    }
}

/// Prints the nodes, one per line, in the order of their definition.
fn outline(graph: &Graph, dry: &DryRun) -> Result<(), Stop> {
    line(format_args!("{BOLD}{}{BOLD:#}", OneLine(&graph.name)))?;
    for text in graph.description.lines() {
        line(format_args!("{DIM}{}{DIM:#}", OneLine(text.trim())))?;
    }
    nodes(graph, Some(dry), 1)
}

fn nodes(graph: &Graph, dry: Option<&DryRun>, depth: usize) -> Result<(), Stop> {
    let indent = "  ".repeat(depth);
    for ListedNode { node, reads, waits } in graph.listed() {
        let what = match (node.callee.as_deref(), node.calls.as_str()) {
            (_, "") => String::new(),
            (Some(callee), calls) => format!(" = {calls} ({callee})"),
            (None, calls) => format!(" = {calls}"),
        };
        let reads =
            if reads.is_empty() { String::new() } else { format!(" <- {}", reads.join(", ")) };
        let question = question_of(node);
        // A gate of a document is a value node with a question.
        let kind = if question.is_some() && node.kind == NodeKind::Value {
            NodeKind::Gate
        } else {
            node.kind
        };
        let kind =
            serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(ToOwned::to_owned));
        line(format_args!(
            "{indent}{:<8} {}{DIM}{}: {}{DIM:#}",
            kind.unwrap_or_default(),
            OneLine(format_args!("{}{what}", node.name)),
            OneLine(reads),
            type_of(node, dry)
        ))?;
        if let Some(question) = question {
            line(format_args!("{indent}         {DIM}asks: {}{DIM:#}", OneLine(question)))?;
        }
        if !waits.is_empty() {
            // Explains waits for nodes whose outputs are not read.
            let waits: Vec<String> =
                waits.iter().map(|(node, why)| format!("`{node}` ({})", why.as_str())).collect();
            let waits = format!("waits for {}", waits.join(", "));
            line(format_args!("{indent}         {DIM}{}{DIM:#}", OneLine(waits)))?;
        }
        for (branch, body) in node.bodies() {
            if !branch.is_empty() {
                line(format_args!("{indent}  {}", OneLine(branch)))?;
            }
            nodes(body, None, depth + 1 + usize::from(!branch.is_empty()))?;
        }
    }
    Ok(())
}

pub(super) async fn run(host: &Runtime, mut args: WorkflowRunArgs) -> Result<(), Stop> {
    args.name = named(&args.name, &mut args.documents.documents)?;
    let host = validate::load_documents_for(host, &args.documents, &args.name).await?;
    let input = match &args.input {
        Some(text) => Encoded::from_json(text.clone()).map_err(|error| {
            Stop::failed(
                "input",
                format!("the input is not JSON: {error}; write --input '{{\"name\": value}}'"),
            )
        })?,
        None => Encoded::from_json("{}".to_owned()).unwrap_or_else(|_| Encoded::null()),
    };
    let runtime = match &args.store {
        Some(address) => runs::with_store(&host, Some(address)).await?,
        None => host,
    };
    if args.queue && args.store.as_ref().is_some_and(StoreAddress::is_memory) {
        let problem = "--queue needs a store that outlives this process; `memory:` does not";
        return Err(Stop::Usage(problem.to_owned()));
    }
    if runtime.store().is_none() && (args.run_id.is_some() || args.queue) {
        let option = if args.queue { "--queue" } else { "--run-id" };
        return Err(Stop::Usage(format!(
            "{option} needs a store that keeps the run; name one with --store, or in the field `store` of the \
             configuration"
        )));
    }
    let ctrl_c = ctrl_c::watch();
    let mut start = runtime.start_named(&args.name, &input);
    if let Some(id) = args.run_id.as_deref() {
        start = start.run_id(RunId::new(id));
    }
    if let Some(version) = args.document_version {
        start = start.version(version);
    }
    let RunStartArgs { caller, tags, run_timeout, max_llm_calls } = args.began;
    start = caller.into_iter().fold(start, StartRun::caller);
    start = tags.into_iter().fold(start, |start, (key, value)| start.tag(key, value));
    start = run_timeout.into_iter().fold(start, StartRun::timeout);
    start = max_llm_calls.into_iter().fold(start, StartRun::max_llm_calls);
    if args.queue {
        return line(start.queued().await?);
    }
    let handle = start.await?;
    let kept = runtime.store().is_some();
    let how = FollowOptions {
        store: args.store.as_ref(),
        kept,
        events: args.events.is_some(),
        before: None,
        ctrl_c,
    };
    follow(handle, how).await
}

/// Options for following a run.
pub(super) struct FollowOptions<'a> {
    /// Store from the command line.
    pub(super) store: Option<&'a StoreAddress>,
    /// `true` if the run has a store: this one, or the store of the host.
    pub(super) kept: bool,
    /// `true` if events are printed as JSON.
    pub(super) events: bool,
    /// State of a resumed run before it was resumed.
    pub(super) before: Option<RunReport>,
    /// Ctrl-C, watched since before the run started.
    pub(super) ctrl_c: oneshot::Receiver<()>,
}

/// Shows a run until its end. For a resumed run, shows only new events and the questions that were
/// open `before`. On Ctrl-C or a closed output, a run with a store is detached and can be resumed;
/// a run without a store is cancelled.
pub(super) async fn follow(handle: RunHandle<Encoded>, how: FollowOptions<'_>) -> Result<(), Stop> {
    let FollowOptions { store, kept, events, before, mut ctrl_c } = how;
    let id = handle.run_id().clone();
    let mut stream = handle.events();
    let mut tree = Tree::new(!events, kept.then(|| store_argument(store)));
    let seen = before.as_ref().map_or(0, |before| before.run.events);
    for node in before.into_iter().flat_map(|before| before.nodes) {
        if let Some(question) = &node.question {
            tree.ask(&id, &node.name, question, "");
        }
    }
    let mut pressed = false;
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            told = &mut ctrl_c, if !pressed => {
                pressed = true;
                if told.is_ok() {
                    if kept {
                        tree.clear();
                        // Detaches from the run, so that it can be resumed.
                        handle.abandon();
                        note(format_args!("stopped; continue with: runs resume {id}{}", store_argument(store)));
                        return Err(Stop::Interrupted);
                    }
                    // The run may have ended meanwhile.
                    let _ = handle.cancel("stopped by Ctrl-C").by(operator()).await;
                }
                continue;
            }
        };
        let Some(event) = event else { break };
        // The process that executed the run before has already shown these events.
        if event.seq <= seen {
            continue;
        }
        tree.see(&event);
        if events && let Err(closed) = print_json(&event) {
            match kept {
                true => handle.abandon(),
                false => drop(handle.cancel("its events could not be written").await),
            }
            return Err(closed);
        }
        // Without a store no other process can answer, and without a time-out the run would wait
        // forever.
        if let EventKind::ApprovalRequested(request) = &event.kind
            && !kept
            && request.timeout_ms.is_none()
        {
            let _ = handle
                .cancel(format!(
                    "the question `{}` cannot be answered in a run that is not stored; add --store",
                    event.path
                ))
                .await;
        }
    }
    tree.clear();
    match handle.result().await {
        Ok(_) if events => Ok(()),
        Ok(output) => {
            let mut answer = Answer::new();
            answer.push(output.as_str())?;
            answer.end_line()
        }
        Err(Error::Cancelled { reason }) if pressed => {
            note(OneLine(reason));
            Err(Stop::Interrupted)
        }
        Err(error) => {
            let events = handle.recorded();
            let undid =
                events.iter().any(|event| matches!(event.kind, EventKind::RunCompensated { .. }));
            if kept && (undid || matches!(error, Error::Node { .. })) {
                let store = store_argument(store);
                let is_denied = matches!(&error, Error::Node { failure, .. } if failure.kind == FailureKind::Denied);
                let next = match undid {
                    _ if is_denied && !undid => {
                        "a person has denied it; a `gate` with `otherwise` continues then. Start a new run to ask again"
                            .to_owned()
                    }
                    true => {
                        "the run has undone what it had done, so no node of it runs again: start a new run".to_owned()
                    }
                    false => format!("a failed node runs again with: runs retry {id} NODE{store}"),
                };
                note(format_args!("{DIM}see: runs show {id}{store}\n  {next}{DIM:#}"));
            }
            Err(error.into())
        }
    }
}

/// Formats the option that names the store on the command line.
pub(super) fn store_argument(store: Option<&StoreAddress>) -> String {
    match store {
        None => String::new(),
        // A shell interprets characters of a query, and the stars of a hidden password.
        Some(store) if store.to_string().contains(['?', '&', '*']) => format!(" --store '{store}'"),
        Some(store) => format!(" --store {store}"),
    }
}
