//! Tests mailboxes between the agents of a run: messages are delivered exactly once and in order,
//! their number is limited, and wrong names are refused. Also with crashes, steps on workers,
//! sessions, teams, snapshots and approvals.

use agentflow::agent::{Limits, RunRequest, Team};
use agentflow::mailbox::Mailbox;
use agentflow::middleware::redact;
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{MemoryStore, Store};
use agentflow::workflow::{Branch, Builder, Handle, Node, NodePolicy, RetryPolicy};
use agentflow::{Error, RunId, schemars, serde};
use agentflow_testing::{CrashTest, EffectLog, ScriptedModel, Turn, check_events, test_runtime};

use crate::agent_snapshots::{SnapshotKeepingStore, store_with};
use crate::state::{check_everywhere, flow, pause};

static WORDS: Mailbox<String> = Mailbox::new("words", &["a", "b", "c", "reader"]);

fn texts(mail: Vec<agentflow::mailbox::Mail<String>>) -> Vec<String> {
    mail.into_iter().map(|mail| format!("{}:{}", mail.from, mail.message)).collect()
}

/// Adds a step that takes `millis` milliseconds and sends two messages.
fn sends(
    b: &mut Builder,
    node: &'static str,
    millis: u64,
    reads: Handle<String>,
) -> Handle<String> {
    b.node(node, (reads,), move |cx, (_,)| async move {
        pause(millis).await;
        cx.send_mail(&WORDS, node, "reader", &format!("{node}1"))?;
        cx.send_mail(&WORDS, node, "reader", &format!("{node}2"))?;
        cx.send_mail(&WORDS, node, node, &"to myself".to_owned())?;
        assert_eq!(
            texts(cx.take_mail(&WORDS, node)?),
            [format!("{node}:to myself")],
            "a step sees what it sent"
        );
        Ok::<_, Error>(String::new())
    })
}

fn reads(
    b: &mut Builder,
    node: &'static str,
    reads: (Handle<String>, Handle<String>),
) -> Handle<String> {
    b.node(node, reads, |cx, (_, _)| async move {
        Ok::<_, Error>(texts(cx.take_mail(&WORDS, "reader")?).join(" "))
    })
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_side_by_side_is_read_in_one_order_and_once() {
    for (b_takes, c_takes) in [(1, 50), (50, 1)] {
        let flow = flow("mail_diamond", |b, go| {
            let first = sends(b, "a", 1, go);
            let left = sends(b, "b", b_takes, first);
            let right = sends(b, "c", c_takes, first);
            let read = reads(b, "read", (left, right));
            let again = reads(b, "again", (read, right));
            b.node("end", (read, again), |_, (read, again)| async move {
                Ok::<_, Error>(format!("{read} then {again:?}"))
            })
        });
        // Concurrent steps number their messages from the state at their start.
        check_everywhere(&flow, "a:a1 a:a2 b:b1 c:c1 b:b2 c:c2 then \"\"").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_failed_has_sent_and_taken_nothing() {
    let flow = flow("mail_attempts", |b, go| {
        let first = sends(b, "a", 1, go);
        let retried = Node::new("retried")
            .policy(NodePolicy::default().retry_policy(RetryPolicy::retries(1)));
        let retried = b.node(retried, (first,), |cx, (_,)| async move {
            let taken = texts(cx.take_mail(&WORDS, "reader")?).join(" ");
            assert_eq!(taken, "a:a1 a:a2", "attempt {}", cx.attempt());
            cx.send_mail(
                &WORDS,
                "b",
                "reader",
                &format!("attempt {}", if cx.attempt() == 1 { 1 } else { 2 }),
            )?;
            match cx.attempt() {
                1 => Err(Error::Lost { reason: "it failed".to_owned() }),
                _ => Ok(taken),
            }
        });
        reads(b, "read", (retried, first))
    });
    check_everywhere(&flow, "b:attempt 2").await;
}

#[tokio::test(start_paused = true)]
async fn items_stand_in_their_order_and_readers_side_by_side_see_the_same() {
    let flow = flow("mail_items", |b, go| {
        let items = b.value("items", (go,), |(_,): (String,)| {
            Ok::<_, String>((0..12).collect::<Vec<u32>>())
        });
        let map = b.map("map", items, (), |cx, n: u32, ()| async move {
            // The last item is the fastest.
            pause(u64::from(12 - n)).await;
            cx.send_mail(&WORDS, "a", "reader", &n.to_string())?;
            Ok::<_, Error>(n)
        });
        let read = |b: &mut Builder, name: &'static str| {
            b.node(name, (map,), |cx, (_,): (Vec<u32>,)| async move {
                let taken = cx.take_mail(&WORDS, "reader")?;
                Ok::<_, Error>(
                    taken.into_iter().map(|mail| mail.message).collect::<Vec<_>>().join(" "),
                )
            })
        };
        let (one, other) = (read(b, "one"), read(b, "other"));
        let left = reads(b, "left", (one, other));
        b.node("end", (one, other, left), |_, (one, other, left)| async move {
            assert_eq!(one, other);
            Ok::<_, Error>(format!("{one}{left}"))
        })
    });
    check_everywhere(&flow, "0 1 2 3 4 5 6 7 8 9 10 11").await;
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Finding {
    file: String,
    /// 1 is harmless.
    level: u8,
}

static FINDINGS: Mailbox<Finding> = Mailbox::new("findings", &["lead", "safety", "style"]);

fn results(request: &agentflow::model::ModelRequest) -> Vec<String> {
    request
        .messages
        .messages()
        .iter()
        .flat_map(|message| message.results())
        .map(|one| one.output.clone())
        .collect()
}

/// Returns an agent that sends findings to the lead, one per turn, and then answers.
fn specialist(name: &'static str, findings: usize) -> Agent {
    let model = ScriptedModel::from_fn(move |request| match results(request).len() {
        sent if sent < findings => Turn::call(
            "findings_send",
            json!({"to": "lead", "message": {"file": format!("{name}{sent}.rs"), "level": 2}}),
        ),
        _ => Turn::text("looked"),
    });
    Agent::new(model).name(name).instruct("Look.").tools(FINDINGS.tools(name).unwrap())
}

/// Returns an agent that calls both specialists in one turn, reads its mailbox twice, and answers
/// with the messages.
fn lead() -> Agent {
    let model = ScriptedModel::from_fn(|request| match &results(request)[..] {
        [] => {
            Turn::calls([("safety", json!({"request": "go"})), ("style", json!({"request": "go"}))])
        }
        [_, _] => Turn::call("findings_read", json!({})),
        [_, _, _] => Turn::call("findings_read", json!({})),
        [_, _, first, second] => Turn::text(format!("{first} {second}")),
        more => panic!("{more:?}"),
    });
    let agent = Agent::new(model).name("lead").tools(FINDINGS.tools("lead").unwrap());
    agent.tools(specialist("safety", 2)).tools(specialist("style", 1))
}

#[tokio::test(start_paused = true)]
async fn models_write_and_read_across_nested_agents_and_crashes() {
    let finding =
        |from: &str, file: &str| json!({"from": from, "message": {"file": file, "level": 2}});
    let first = json!({"messages": [
        finding("safety", "safety0.rs"), finding("style", "style0.rs"), finding("safety", "safety1.rs")], "left": 0});
    let expected = format!("{first} {}", json!({"messages": [], "left": 0}));
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = lead().runtime(&runtime).start("Look at it.").unwrap();
    let result = run.result().await.unwrap();
    let read: Vec<Value> = serde_json::Deserializer::from_str(result.output())
        .into_iter()
        .map(|one| one.unwrap())
        .collect();
    let wanted: Vec<Value> =
        serde_json::Deserializer::from_str(&expected).into_iter().map(|one| one.unwrap()).collect();
    assert_eq!(read, wanted);
    check_events(&result.events()).unwrap();
    assert!(runtime.run(run.run_id()).state().await.unwrap().is_empty(), "nothing waits any more");
    CrashTest::agent(&lead(), || "Look at it.").run().await;
}

#[tokio::test(start_paused = true)]
async fn agents_of_a_team_leave_messages_for_each_other() {
    fn team() -> Agent {
        let first = ScriptedModel::from_fn(|request| match results(request).len() {
            0 => Turn::call(
                "findings_send",
                json!({"to": "style", "message": {"file": "x.rs", "level": 1}}),
            ),
            1 => Turn::call("transfer_to_agent", json!({"agent": "style"})),
            2 => panic!("`style` has the conversation"),
            // The conversation was handed back.
            _ => Turn::text("done"),
        });
        let style = ScriptedModel::from_fn(|request| match &results(request)[..] {
            [_, _] => Turn::call("findings_read", json!({})),
            [_, _, read] => {
                assert!(read.contains("x.rs") && read.contains("lead"), "{read}");
                Turn::call("transfer_to_agent", json!({"agent": "lead"}))
            }
            more => panic!("{more:?}"),
        });
        let first = Agent::new(first).name("lead").tools(FINDINGS.tools("lead").unwrap());
        let style = Agent::new(style).name("style").tools(FINDINGS.tools("style").unwrap());
        Team::new(first, &["style"]).agent(style, &["lead"]).build().unwrap()
    }
    assert_eq!(team().run("go").await.unwrap().output(), "done");
    CrashTest::agent(&team(), || "go").run().await;
}

#[tokio::test]
async fn a_model_that_writes_nonsense_is_answered() {
    let long = "x".repeat(17 << 10);
    let calls = [
        (json!({"to": "lad", "message": {"file": "x", "level": 1}}), "did you mean `lead`?"),
        (
            json!({"to": "mail:findings:lead", "message": {"file": "x", "level": 1}}),
            "its agents are: lead, safety, style",
        ),
        (
            json!({"to": "lead", "message": {"file": "x", "level": 700}}),
            "invalid value: integer `700`",
        ),
        (json!({"to": "lead", "message": "x"}), "`message`: invalid type"),
        (json!({"to": "lead"}), "missing field `message`"),
        (json!({"to": "lead", "from": "lead", "message": {"file": "x", "level": 1}}), "`from`"),
        (
            json!({"to": "lead", "message": {"file": long, "level": 1}}),
            "more than the 16384 of one",
        ),
    ];
    let wanted: Vec<&str> = calls.iter().map(|(_, wanted)| *wanted).collect();
    let model = ScriptedModel::new([
        Turn::calls(calls.iter().map(|(arguments, _)| ("findings_send", arguments.clone()))).check(
            |request| {
                assert!(
                    serde_json::to_string(&request.tools.definitions()[1].parameters)
                        .unwrap()
                        .contains("harmless")
                );
            },
        ),
        Turn::text("I give up"),
    ]);
    let agent = Agent::new(model).tools(FINDINGS.tools("style").unwrap());
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store).build();
    let run = agent
        .runtime(&runtime)
        .settings(Limits::default().max_tool_failures(20))
        .start("go")
        .unwrap();
    let result = run.result().await.unwrap();
    let said: Vec<String> = result
        .conversation()
        .messages()
        .iter()
        .flat_map(|message| message.results())
        .map(|one| one.output.clone())
        .collect();
    for (said, wanted) in said.iter().zip(wanted) {
        assert!(said.contains(wanted), "{wanted}: {said}");
        assert!(said.len() < 500, "{}", said.len());
    }
    assert!(runtime.run(run.run_id()).state().await.unwrap().is_empty());
}

#[tokio::test]
async fn names_and_limits() {
    let cx = Context::detached();
    let said = |error: Error| error.to_string();
    let error = said(cx.send_mail(&WORDS, "d", "a", &String::new()).unwrap_err());
    assert_eq!(
        error,
        "the mailbox `words`: it has no agent `d`; did you mean `a`?; its agents are: a, b, c, reader"
    );
    assert!(
        said(cx.send_mail(&WORDS, "a", "reeder", &String::new()).unwrap_err())
            .contains("did you mean `reader`?")
    );
    assert!(said(cx.take_mail(&WORDS, "").unwrap_err()).contains("no agent ``"));
    assert!(said(WORDS.tools("nobody").unwrap_err()).contains("no agent `nobody`"));
    for count in 0..256 {
        cx.send_mail(&WORDS, "a", "reader", &count.to_string()).unwrap();
    }
    let full = cx.send_mail(&WORDS, "a", "reader", &"one more".to_owned()).unwrap_err();
    assert_eq!(
        full.to_string(),
        "the mailbox `words`: 256 messages wait for `reader`, which is the limit; let it read them before more are sent"
    );
    cx.send_mail(&WORDS, "reader", "a", &"another's is not full".to_owned()).unwrap();
    let read = cx.take_mail(&WORDS, "reader").unwrap();
    let expected: Vec<String> = (0..256).map(|count| count.to_string()).collect();
    assert_eq!(
        read.into_iter().map(|mail| mail.message).collect::<Vec<_>>(),
        expected,
        "in the order of sending"
    );
    cx.send_mail(&WORDS, "b", "reader", &"there is room again".to_owned()).unwrap();
    // A message that another version of the program sent.
    static AS_NUMBERS: Mailbox<u32> = Mailbox::new("words", &["reader"]);
    let other = said(cx.take_mail(&AS_NUMBERS, "reader").unwrap_err());
    assert!(
        other.starts_with("the mailbox `words`: a message of `b` is not of the type `u32`"),
        "{other}"
    );
    assert_eq!(
        texts(cx.take_mail(&WORDS, "reader").unwrap()),
        ["b:there is room again"],
        "it was not taken"
    );
    assert_eq!(texts(cx.take_mail(&WORDS, "a").unwrap()), ["reader:another's is not full"]);
    // A value that JSON cannot represent.
    static NUMBERS: Mailbox<f64> = Mailbox::new("numbers", &["a"]);
    assert!(
        said(cx.send_mail(&NUMBERS, "a", "a", &f64::NAN).unwrap_err()).contains("does not survive")
    );
    // Programs cannot use these keys for their state.
    assert!("mail:words:a:1:a:x".parse::<StateKey<String>>().is_err());
}

#[tokio::test]
async fn a_model_reads_many_messages_in_several_calls() {
    let model = ScriptedModel::from_fn(|request| {
        let results = results(request);
        match results.last().map(|last| serde_json::from_str::<Value>(last).unwrap()) {
            Some(last) if last["left"] == 0 => {
                let counts = results.iter().map(|one| {
                    serde_json::from_str::<Value>(one).unwrap()["messages"]
                        .as_array()
                        .unwrap()
                        .len()
                });
                Turn::text(format!("{:?}", counts.collect::<Vec<_>>()))
            }
            _ => Turn::call("words_read", json!({})),
        }
    });
    let flow = flow("mail_many", |b, go| {
        let first = b.node("first", (go,), |cx, (_,)| async move {
            for _ in 0..7 {
                cx.send_mail(&WORDS, "a", "reader", &"x".repeat(10_000))?;
            }
            Ok::<_, Error>(String::new())
        });
        let agent = Agent::new(model).tools(WORDS.tools("reader").unwrap());
        b.node("read", (first,), move |cx, (_,)| {
            let agent = agent.clone();
            async move { Ok::<_, Error>(agent.run_in(&cx, "Read.").await?.into_output()) }
        })
    });
    assert_eq!(flow.run(&test_runtime().build(), String::new()).await.unwrap(), "[3, 3, 1]");
    CrashTest::new(&flow, String::new).run().await;
}

#[tokio::test]
async fn messages_end_with_their_run_also_in_a_session() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let sends = ScriptedModel::new([
        Turn::call("words_send", json!({"to": "b", "message": "hello"})),
        Turn::text("sent"),
        Turn::call("words_read", json!({})),
        Turn::text("nothing").check(|request| {
            assert_eq!(*results(request).last().unwrap(), r#"{"messages":[],"left":0}"#);
        }),
    ]);
    let tools = WORDS.tools("a").unwrap().into_iter().chain(WORDS.tools("b").unwrap());
    let [send, _, _, read] = tools.collect::<Vec<_>>().try_into().unwrap();
    let agent = Agent::new(sends).tools([send, read]).runtime(&runtime);
    let run = agent.start(RunRequest::new("go").session("s")).unwrap();
    assert_eq!(run.result().await.unwrap().output(), "sent");
    let waits = runtime.run(run.run_id()).state().await.unwrap();
    let waits: Vec<String> = waits.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    assert_eq!(waits, [r#"mail:words:b:1:a:tool#1.words_send = "hello""#]);
    assert!(runtime.sessions().state("s").await.unwrap().is_empty());
    assert_eq!(agent.run(RunRequest::new("go").session("s")).await.unwrap().output(), "nothing");
}

/// Tell somebody, if a person agrees.
#[tool(approve)]
async fn mail_agreed(cx: &Context, log: Inject<EffectLog>, text: String) -> Result<String> {
    log.note(cx);
    cx.send_mail(&WORDS, "a", "reader", &text)?;
    Ok("sent".to_owned())
}

#[workflow]
async fn mail_asked(cx: &Context, text: String) -> Result<Vec<String>> {
    let sent = mail_agreed(cx, cx.inject()?, text).await?;
    let rounds = repeat!(sent, |last| mail_round(cx, last), max = 9).await?;
    #[after(rounds)]
    let read = mail_read(cx).await?;
    Ok(read)
}

/// Sends a message in each round until four are waiting.
async fn mail_round(cx: &Context, last: String) -> Result<String> {
    let waiting = texts(cx.take_mail(&WORDS, "reader")?);
    for word in &waiting {
        cx.send_mail(&WORDS, "b", "reader", word)?;
    }
    cx.send_mail(&WORDS, "b", "reader", &"more".to_owned())?;
    if waiting.len() == 3 {
        cx.exit_loop()?;
    }
    Ok(last)
}

async fn mail_read(cx: &Context) -> Result<Vec<String>> {
    Ok(texts(cx.take_mail(&WORDS, "reader")?))
}

#[tokio::test(start_paused = true)]
async fn after_an_approval_and_in_rounds() {
    let log = EffectLog::new();
    let given = log.clone();
    let report = CrashTest::new(&mail_asked::workflow(), || "hello".to_owned())
        .runtime(move |runtime| runtime.resource(given.clone()))
        .answer("sent/tool#1.mail_agreed", Approval::granted())
        .effects(&log)
        .run()
        .await;
    assert!(report.crashes() > 10, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_the_messages_that_wait() {
    const TURNS: usize = 300;
    /// Returns an agent that sends itself the number of the turn, and reads all messages in every
    /// fifth turn.
    fn agent(runtime: &Runtime) -> Agent {
        let model = ScriptedModel::from_fn(|request| {
            let results = results(request);
            match results.len() {
                TURNS => Turn::text(
                    results
                        .iter()
                        .filter(|one| one.contains("messages"))
                        .cloned()
                        .collect::<String>(),
                ),
                at if at % 5 == 4 => Turn::call("words_read", json!({})),
                at => Turn::call("words_send", json!({"to": "reader", "message": at.to_string()})),
            }
        });
        let limits = Limits::default().max_steps(TURNS as u32 + 10);
        Agent::new(model).tools(WORDS.tools("reader").unwrap()).settings(limits).runtime(runtime)
    }
    let store = SnapshotKeepingStore::new(MemoryStore::new());
    let runtime = |store: &SnapshotKeepingStore| test_runtime().store(store.clone()).build();
    let run = agent(&runtime(&store)).start("go").unwrap();
    let output = run.result().await.unwrap().output().clone();
    for at in (0..TURNS).filter(|at| at % 5 != 4) {
        assert_eq!(output.matches(&format!("\"{at}\"")).count(), 1, "{at} is read once");
    }
    let events = store.store.read(run.run_id(), 0, 10_000).await.unwrap();
    let id: RunId = run.run_id().clone();
    let snapshots = store.snapshots();
    assert!(!snapshots.is_empty(), "{} events", events.len());
    for snapshot in snapshots {
        for more in 0..12 {
            let cut = usize::try_from(snapshot.seq).unwrap() + more;
            let store = store_with(&events[..cut.min(events.len() - 1)], Some(&snapshot)).await;
            let resumed = agent(&runtime(&store)).resume(&id).await.unwrap();
            assert_eq!(
                *resumed.result().await.unwrap().output(),
                output,
                "{more} after {}",
                snapshot.seq
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_lost_has_sent_nothing() {
    let flow = flow("mail_branches", |b, go| {
        let branch = |name: &'static str, millis: u64, fails: bool| {
            move |cx: Context, _| async move {
                cx.send_mail(&WORDS, "a", "reader", &name.to_owned())?;
                pause(millis).await;
                match fails {
                    true => Err(Error::Lost { reason: "it failed".to_owned() }),
                    false => Ok(name.to_owned()),
                }
            }
        };
        let raced = b.race(
            "race",
            [
                Branch::new("slow", (go,), branch("slow", 50, false)),
                Branch::new("quick", (go,), branch("quick", 1, false)),
            ],
        );
        let fallen = b.fallback(
            "fallback",
            [
                Branch::new("fails", (raced,), branch("fails", 1, true)),
                Branch::new("works", (raced,), branch("works", 1, false)),
            ],
        );
        reads(b, "read", (raced, fallen))
    });
    check_everywhere(&flow, "a:quick a:works").await;
}

#[tokio::test]
async fn a_redactor_masks_messages_in_the_journal() {
    let model = ScriptedModel::new([
        Turn::call("words_send", json!({"to": "reader", "message": "the word is swordfish"})),
        Turn::text("sent"),
    ]);
    let store = MemoryStore::new();
    let runtime = test_runtime().with(redact().secret("swordfish")).store(store.clone()).build();
    let run =
        Agent::new(model).tools(WORDS.tools("a").unwrap()).runtime(&runtime).start("go").unwrap();
    run.result().await.unwrap();
    let journal =
        serde_json::to_string(&Store::read(&store, run.run_id(), 0, 1000).await.unwrap()).unwrap();
    assert!(
        journal.contains("mail:words:reader:1:a:tool#1.words_send")
            && !journal.contains("swordfish"),
        "{journal}"
    );
}
