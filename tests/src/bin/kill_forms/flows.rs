//! Workflows of the kill test. They cover every workflow form, agents in tools of agents, and gates
//! in nested workflows.
//!
//! Outputs depend only on the input, regardless of how often a process was killed. Each side effect
//! is a line in a file.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::serde_json::{Value, json};
use agentflow::tool::{Effects, FnTool, ToolDefinition, ToolPolicy, ToolRef};
use agentflow::workflow::{Branch, Builder, Handle, Node, NodePolicy, OnError, RetryPolicy};
use agentflow::{Agent, Approval, Context, Workflow};
use agentflow_testing::{ScriptedModel, Turn};

type Step<T> = Result<T, String>;
type Flow = Workflow<(u64,), String>;

/// File that records the side effects.
#[derive(Clone)]
pub(crate) struct EffectFile(Arc<PathBuf>);

impl EffectFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(Arc::new(path))
    }

    /// Appends one line with a single write, and syncs it to disk.
    fn note(&self, kind: &str, cx: &Context) {
        self.line(&format!("{kind} {} {} {}", cx.run_id(), cx.path(), cx.attempt()));
    }

    fn line(&self, line: &str) {
        let mut file =
            OpenOptions::new().create(true).append(true).open(&*self.0).expect("the file opens");
        file.write_all(format!("{line}\n").as_bytes()).expect("it is written");
        file.sync_data().expect("it is kept");
    }

    /// Returns how often a run has recorded this effect, across all processes.
    fn count(&self, kind: &str, cx: &Context) -> usize {
        let of = format!("{kind} {} ", cx.run_id());
        fs::read_to_string(&*self.0)
            .unwrap_or_default()
            .lines()
            .filter(|line| line.starts_with(&of))
            .count()
    }
}

async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Creates a tool. Unless it is idempotent, it counts as a tool with side effects and is never
/// retried automatically.
fn tool<F, Fut>(name: &'static str, idempotent: bool, body: F) -> ToolRef
where
    F: Fn(Context, u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Step<String>> + Send + 'static,
{
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let policy = ToolPolicy::default().effects(Effects::Write);
    let policy = if idempotent { policy.idempotent() } else { policy };
    FnTool::dynamic(ToolDefinition::new(name, "Does it.", schema), move |cx, arguments: Value| {
        body(cx, arguments["n"].as_u64().unwrap_or_default())
    })
    .policy(policy)
    .into()
}

fn effect(file: &EffectFile, name: &'static str, idempotent: bool) -> ToolRef {
    let file = file.clone();
    tool(name, idempotent, move |cx, n| {
        let file = file.clone();
        async move {
            pass(1).await;
            file.note(name, &cx);
            pass(1).await;
            Ok(format!("{name} {n}"))
        }
    })
}

/// Creates a tool that runs another agent.
fn ask(name: &'static str, idempotent: bool, agent: Agent) -> ToolRef {
    tool(name, idempotent, move |cx, n| {
        let agent = agent.clone();
        async move {
            let request = RunRequest::from(format!("{} {} {n}", cx.run_id(), cx.path()));
            agent
                .run_in(&cx, request)
                .await
                .map(|answer| answer.into_output())
                .map_err(|error| error.to_string())
        }
    })
}

/// Creates a model that calls the given tools, one list per turn, and then finishes. It ignores the
/// results of the tools.
fn model(
    file: &EffectFile,
    name: &'static str,
    turns: &'static [&'static [&'static str]],
) -> ScriptedModel {
    let file = file.clone();
    ScriptedModel::from_fn(move |request| {
        let messages = request.messages.messages();
        let turn = messages.iter().filter(|message| message.tool_calls().next().is_some()).count();
        let asked =
            messages.iter().map(|message| message.text()).find(|text| text.contains("run-"));
        file.line(&format!("model {} {turn}", asked.unwrap_or_default()));
        let turn = match turns.get(turn) {
            Some(tools) => {
                Turn::calls(tools.iter().zip(1..).map(|(tool, n)| (*tool, json!({"n": n}))))
            }
            None => Turn::text(format!("{name} is done after {turn} turns")),
        };
        turn.after(Duration::from_millis(1))
    })
}

fn worker(file: &EffectFile) -> Agent {
    Agent::new(model(file, "worker", &[&["book"], &["pay", "book"]]))
        .name("worker")
        .tools([effect(file, "pay", false), effect(file, "book", true)])
}

fn middle(file: &EffectFile) -> Agent {
    Agent::new(model(file, "middle", &[&["deeper"], &["hand", "pay"]])).name("middle").tools([
        ask("deeper", true, worker(file)),
        ask("hand", false, worker(file)),
        effect(file, "pay", false),
    ])
}

/// Builds three levels of agents: a tool of the first runs the second, and a tool of the second
/// runs the third. Another tool runs a workflow that maps over agents.
pub(crate) fn chief(file: &EffectFile) -> Agent {
    let part = mapped_agents(file);
    let plan = tool("plan", true, move |cx, n| {
        let part = part.clone();
        async move { part.run_in(&cx, n).await.map_err(|error| error.to_string()) }
    });
    Agent::new(model(file, "chief", &[&["delegate", "pay"], &["plan"], &["book"]]))
        .name("chief")
        .tools([
            ask("delegate", true, middle(file)),
            plan,
            effect(file, "pay", false),
            effect(file, "book", true),
        ])
}

fn once() -> NodePolicy {
    NodePolicy::default().repeatable(false)
}

/// Adds a node with a side effect. It takes a moment and returns its input plus one.
fn step(
    b: &mut Builder,
    file: &EffectFile,
    kind: &'static str,
    node: Node,
    reads: Handle<u64>,
) -> Handle<u64> {
    let file = file.clone();
    b.node(node, (reads,), move |cx, (n,)| {
        let file = file.clone();
        async move {
            pass(1).await;
            file.note(kind, &cx);
            pass(2).await;
            Step::Ok(n + 1)
        }
    })
}

fn free(b: &mut Builder, file: &EffectFile, name: &str, reads: Handle<u64>) -> Handle<u64> {
    step(b, file, "free", Node::new(name), reads)
}

fn paid(b: &mut Builder, file: &EffectFile, name: &str, reads: Handle<u64>) -> Handle<u64> {
    step(b, file, "once", Node::new(name).policy(once()), reads)
}

fn built(flow: agentflow::Result<Flow>) -> Flow {
    flow.unwrap_or_else(|error| panic!("{error}"))
}

fn mapped_agents(file: &EffectFile) -> Flow {
    let (file, agent) = (file.clone(), worker(file));
    built(Workflow::build("mapped_agents", ["n"], |b, (n,)| {
        let items = b.value("items", (n,), |(n,)| Step::Ok(vec![n, n + 1, n + 2]));
        let policy = NodePolicy::default().concurrency(2);
        let all = b.map(Node::new("each").policy(policy), items, (), move |cx, n: u64, ()| {
            let agent = agent.clone();
            async move {
                let request = RunRequest::from(format!("{} {} {n}", cx.run_id(), cx.path()));
                agent.run_in(&cx, request).await.map(|answer| answer.into_output())
            }
        });
        let settled = paid(b, &file, "settle", n);
        let word: Handle<Approval> =
            b.gate("word", (settled,), |(n,)| Step::Ok(("is it right?".to_owned(), n)));
        b.value("end", (all, settled, word), |(all, n, word)| {
            Step::Ok(format!("{} {n} {}", all.join(", "), word.is_granted()))
        })
    }))
}

/// Runs agents in tools of agents, and an agent in a map of a workflow in a tool.
pub(crate) fn office(file: &EffectFile) -> Flow {
    let agent = chief(file);
    built(Workflow::build("office", ["n"], |b, (n,)| {
        let first = free(b, file, "first", n);
        let said = b.node("chief", (first,), move |cx, (n,)| {
            let agent = agent.clone();
            async move {
                let request = RunRequest::from(format!("{} {} {n}", cx.run_id(), cx.path()));
                agent.run_in(&cx, request).await.map(|answer| answer.into_output())
            }
        });
        let settled = paid(b, file, "settle", first);
        b.value("end", (said, settled), |(said, n)| Step::Ok(format!("{said}, {n}")))
    }))
}

fn inner(file: &EffectFile) -> Flow {
    built(Workflow::build("inner", ["n"], |b, (n,)| {
        let x = free(b, file, "x", n);
        let pay = paid(b, file, "pay", n);
        let word: Handle<Approval> =
            b.gate("ok", (x,), |(n,)| Step::Ok(("continue?".to_owned(), n)));
        let sum = b.value("sum", (x, pay, word), |(x, y, word)| {
            Step::Ok(x + y + u64::from(word.is_granted()))
        });
        let y = free(b, file, "y", sum);
        b.value("end", (y,), |(y,)| Step::Ok(y.to_string()))
    }))
}

fn nested(b: &mut Builder, name: &str, part: &Flow, reads: Handle<u64>) -> Handle<String> {
    let part = part.clone();
    b.node(name, (reads,), move |cx, (n,)| {
        let part = part.clone();
        async move { part.run_in(&cx, n).await }
    })
}

fn in_between(file: &EffectFile) -> Flow {
    let part = inner(file);
    built(Workflow::build("in_between", ["n"], |b, (n,)| {
        let within = nested(b, "in", &part, n);
        let amount: Handle<u64> =
            b.gate("amount", (n,), |(n,)| Step::Ok(("how much?".to_owned(), n)));
        let more = paid(b, file, "more", amount);
        b.value("end", (within, more), |(text, n)| Step::Ok(format!("{text} {n}")))
    }))
}

/// Waits at gates in nested workflows, two of them concurrently.
pub(crate) fn gates(file: &EffectFile) -> Flow {
    let part = in_between(file);
    built(Workflow::build("gates", ["n"], |b, (n,)| {
        let first = free(b, file, "first", n);
        let (left, right) = (nested(b, "left", &part, first), nested(b, "right", &part, first));
        let last: Handle<Approval> =
            b.gate("last", (left,), |(text,)| Step::Ok(("and now?".to_owned(), text)));
        let asked = step(b, file, "once", Node::new("asked").policy(once().approve("really?")), n);
        b.value("end", (left, right, last, asked), |(left, right, word, n)| {
            Step::Ok(format!("{left} {right} {} {n}", word.is_granted()))
        })
    }))
}

fn branch(
    file: &EffectFile,
    name: &str,
    millis: u64,
    reads: Handle<u64>,
    result: Step<u64>,
) -> Branch<u64> {
    let file = file.clone();
    Branch::new(name, (reads,), move |cx, (n,)| {
        let (file, result) = (file.clone(), result.clone());
        async move {
            file.note("free", &cx);
            pass(millis).await;
            result.map(|more| n + more)
        }
    })
}

/// Adds a node that fails on its first two attempts.
fn service(b: &mut Builder, file: &EffectFile, reads: Handle<u64>) -> Handle<u64> {
    let file = file.clone();
    b.node("service", (reads,), move |cx, (n,)| {
        let file = file.clone();
        async move {
            file.note("service", &cx);
            pass(2).await;
            if file.count("service", &cx) < 3 { Err("it is down".to_owned()) } else { Ok(n) }
        }
    })
}

/// Fails in a node of a nested workflow while other nodes run, in that workflow and in its parent.
pub(crate) fn broken(file: &EffectFile) -> Flow {
    let part = built(Workflow::build("part", ["n"], |b, (n,)| {
        let first = free(b, file, "first", n);
        let service = service(b, file, first);
        let (x, y) = (free(b, file, "x", first), free(b, file, "y", n));
        b.value("end", (service, x, y), |(n, x, y)| Step::Ok(format!("{n} {x} {y}")))
    }));
    built(Workflow::build("broken", ["n"], |b, (n,)| {
        let within = nested(b, "within", &part, n);
        let (x, z) = (free(b, file, "x", n), paid(b, file, "z", n));
        let y = paid(b, file, "y", x);
        let lost: Handle<u64> =
            b.node(Node::new("lost").on_error(OnError::Skip), (n,), |_, _| async {
                Err("it is gone".to_owned())
            });
        let _unread = free(b, file, "unread", lost);
        b.value("end", (within, y, z), |(text, y, z)| Step::Ok(format!("{text} {y} {z}")))
    }))
}

/// Runs enough steps for the runtime to take a snapshot in between.
pub(crate) fn many(file: &EffectFile) -> Flow {
    built(Workflow::build("many", ["n"], |b, (n,)| {
        let items = b
            .value("items", (n,), |(n,)| Step::Ok((0..520).map(|at| at + n).collect::<Vec<u64>>()));
        let policy = NodePolicy::default().concurrency(40);
        let all =
            b.map(Node::new("each").policy(policy), items, (), move |_, n: u64, ()| async move {
                pass(1).await;
                Step::Ok(n)
            });
        let total = b.value("total", (all,), |(all,)| Step::Ok(all.iter().sum::<u64>()));
        let last = (0..4).fold(total, |before, at| paid(b, file, &format!("n{at}"), before));
        b.value("end", (last,), |(n,)| Step::Ok(n.to_string()))
    }))
}

/// Combines retries, a race, a fallback, a repetition, a map, a branch, and a service that fails on
/// its first attempts.
pub(crate) fn forms(file: &EffectFile) -> Flow {
    built(Workflow::build("forms", ["n"], |b, (n,)| {
        let mut retry = RetryPolicy::retries(2);
        retry.backoff_ms = 8;
        let noted = file.clone();
        let flaky = b.node(
            Node::new("flaky").policy(NodePolicy::default().retry_policy(retry)),
            (n,),
            move |cx, (n,)| {
                let noted = noted.clone();
                async move {
                    noted.note("flaky", &cx);
                    pass(2).await;
                    if noted.count("flaky", &cx) < 2 {
                        Err("not yet".to_owned())
                    } else {
                        Ok(n + 1)
                    }
                }
            },
        );
        let raced = b.race(
            "raced",
            [branch(file, "slow", 12, flaky, Ok(1)), branch(file, "fast", 4, flaky, Ok(1))],
        );
        let fallen = b.fallback(
            "fallen",
            [
                branch(file, "first", 3, flaky, Err("no".to_owned())),
                branch(file, "second", 3, flaky, Ok(2)),
            ],
        );
        let noted = file.clone();
        let repeated = b.repeat(
            "repeated",
            raced,
            (),
            5,
            |n: &u64| *n >= 6,
            move |cx, n, ()| {
                let noted = noted.clone();
                async move {
                    noted.note("free", &cx);
                    pass(2).await;
                    Step::Ok(n + 2)
                }
            },
        );
        let items = b.value("items", (repeated, fallen), |(x, y)| Step::Ok(vec![x, y, x + y, 1]));
        let noted = file.clone();
        let policy = once().concurrency(2);
        let mapped = b.map(Node::new("mapped").policy(policy), items, (), move |cx, n: u64, ()| {
            let noted = noted.clone();
            async move {
                noted.note("once", &cx);
                pass(3).await;
                Step::Ok(n * 2)
            }
        });
        let total = b.value("total", (mapped,), |(all,)| Step::Ok(all.iter().sum::<u64>()));
        let router =
            b.route("size", ["small", "large"], (total,), |(n,)| Step::Ok(usize::from(n > 3)));
        let small = b.arm(router, 0, |b| free(b, file, "s", total));
        let large = b.arm(router, 1, |b| {
            let one = paid(b, file, "l1", total);
            free(b, file, "l2", one)
        });
        let size = b.join(router, [small, large]);
        let service = service(b, file, size);
        let last = paid(b, file, "last", service);
        b.value("end", (last,), |(n,)| Step::Ok(n.to_string()))
    }))
}

/// Runs a slow chain of nodes, so that operators can pause and cancel it.
pub(crate) fn long(file: &EffectFile) -> Flow {
    built(Workflow::build("long", ["n"], |b, (n,)| {
        let last = (0..12).fold(n, |before, at| match at % 3 {
            0 => paid(b, file, &format!("n{at}"), before),
            _ => free(b, file, &format!("n{at}"), before),
        });
        b.value("end", (last,), |(n,)| Step::Ok(n.to_string()))
    }))
}
