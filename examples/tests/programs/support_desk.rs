//! Runs the support desk as a program, offline: a customer's letters, a person's decisions, and
//! kills at random moments under load. It uses a minimal HTTP client, because a full client would
//! hide lost responses.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use agentflow::serde_json::{self, Value, json};

/// Time limit of each wait.
const LIMIT: Duration = Duration::from_secs(60);

/// A running desk. It is stopped at the end of its test.
struct Desk {
    process: Child,
    address: String,
}

impl Desk {
    fn open(folder: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_support_desk"))
            .args(["--port", "0", "--store"])
            .arg(folder)
            .env_remove("AGENTFLOW_MODEL")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.trim().strip_prefix("http://") else {
            let mut problem = String::new();
            process.stderr.take().unwrap().read_to_string(&mut problem).unwrap();
            panic!("the desk did not open: {problem}");
        };
        Self { address: address.to_owned(), process }
    }

    fn kill(&mut self) {
        // The process may have ended on its own.
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A complete response of the server.
#[derive(Debug)]
struct Reply {
    status: u16,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request. An incomplete response is an error, and then the effect of the request is
/// unknown.
fn ask(address: &str, method: &str, path: &str, headers: &str, body: &str) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: desk\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let lost = || io::Error::other(format!("half an answer: {answer:?}"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(lost)?;
    let field =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    if field("content-length").is_some_and(|length| length != body.len().to_string()) {
        return Err(lost());
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(lost)?;
    Ok(Reply { status, body: body.to_owned() })
}

fn get(address: &str, path: &str) -> io::Result<Reply> {
    ask(address, "GET", path, "", "")
}

fn write_letter(address: &str, customer: &str, key: &str, text: &str) -> io::Result<Reply> {
    let path = format!("/customers/{customer}/letters");
    ask(
        address,
        "POST",
        &path,
        &format!("idempotency-key: {key}\r\n"),
        &json!({"text": text}).to_string(),
    )
}

fn decide(address: &str, decision: &Value) -> io::Result<Reply> {
    ask(address, "POST", "/inbox", "", &decision.to_string())
}

/// Polls until `look` returns a value.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "{what} did not come in {LIMIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn answer_of(address: &str, run: &str) -> String {
    wait_for("the answer", || {
        let shown = get(address, &format!("/runs/{run}")).unwrap().json();
        match shown["status"].as_str().unwrap() {
            "running" | "paused" | "queued" => None,
            _ => Some(shown["answer"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()),
        }
    })
}

fn first_question(address: &str) -> Value {
    wait_for("the question", || get(address, "/inbox").unwrap().json().get(0).cloned())
}

/// Returns the payments in the folder of a desk: order and cents.
fn payments(folder: &Path) -> Vec<(u64, u64)> {
    let files = std::fs::read_dir(folder.join("payments")).unwrap();
    // A process that is killed before it names its file leaves a temporary one, which does not count.
    let named = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let mut paid: Vec<(u64, u64)> = named
        .map(|path| std::fs::read(path).unwrap())
        .filter_map(|text| serde_json::from_slice::<Value>(&text).ok())
        .map(|payment| (payment["order"].as_u64().unwrap(), payment["cents"].as_u64().unwrap()))
        .collect();
    paid.sort_unstable();
    paid
}

#[test]
fn a_customer_writes_and_a_person_decides() {
    let folder = tempfile::tempdir().unwrap();
    let mut desk = Desk::open(folder.path());
    let here = desk.address.clone();

    assert_eq!(write_letter(&here, "ada", "1", "Where is order 7?").unwrap().status, 202);
    assert_eq!(answer_of(&here, "ada.1"), "Your parcel is at the customs office. (letter 1)");
    assert_eq!(
        write_letter(&here, "ada", "2", "I want my money back for order 3.").unwrap().status,
        202
    );
    assert_eq!(
        answer_of(&here, "ada.2"),
        "Your parcel is on its way. We pay back 1900 cents. (letter 2)"
    );

    // A large amount waits for a person, also across a restart.
    write_letter(&here, "ada", "3", "A refund for order 8, please.").unwrap();
    let question = first_question(&here);
    assert_eq!(question["message"], "call `large_refund(cents: 12900, order: 8)`?");
    desk.kill();
    let desk = Desk::open(folder.path());
    let here = desk.address.clone();
    let question = (first_question(&here)["path"].as_str().unwrap().to_owned(), question);
    let decision = |decision: Value| {
        let mut all = json!({"run": "ada.3", "path": question.0, "by": "grace"});
        all.as_object_mut().unwrap().extend(decision.as_object().unwrap().clone());
        all
    };
    let wrong = decide(
        &here,
        &decision(json!({"decision": "granted", "arguments": {"order": 8, "cents": "all"}})),
    );
    assert_eq!(wrong.unwrap().status, 422);
    let half = decision(json!({"decision": "granted", "arguments": {"order": 8, "cents": 6000}}));
    assert_eq!(decide(&here, &half).unwrap().status, 204);
    assert_eq!(
        answer_of(&here, "ada.3"),
        "Your parcel is lost. We pay back 6000 cents. (letter 3)"
    );
    assert_eq!(decide(&here, &half).unwrap().status, 409, "answered once");

    write_letter(&here, "bob", "1", "A refund for order 11, please.").unwrap();
    let path = first_question(&here)["path"].clone();
    let no = json!({"run": "bob.1", "path": path, "by": "grace", "decision": "denied", "comment": "too late"});
    assert_eq!(decide(&here, &no).unwrap().status, 204);
    let answer = answer_of(&here, "bob.1");
    assert!(answer.contains("We cannot pay back") && answer.contains("too late"), "{answer}");

    assert_eq!(payments(folder.path()), [(3, 1900), (8, 6000)]);
    assert_eq!(get(&here, "/customers/ada/history").unwrap().json().as_array().unwrap().len(), 3);
    assert_eq!(get(&here, "/runs/nobody").unwrap().status, 404);

    // The events of the run, from the start and from a position.
    let events = get(&here, "/runs/ada.3/events").unwrap().body;
    for name in [
        "node_start",
        "awaiting_approval",
        "approval_resolved",
        "node_complete",
        "workflow_complete",
    ] {
        assert!(events.contains(&format!("event: {name}\n")), "{name}: {events}");
    }
    let last = events.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    let rest = ask(&here, "GET", "/runs/ada.3/events", &format!("last-event-id: {last}\r\n"), "")
        .unwrap()
        .body;
    assert!(!rest.contains("event: "), "{rest}");
}

const CUSTOMERS: u64 = 6;
const KILLS: u32 = 50;

/// Returns the order that a customer's letter is about.
fn order_of(customer: u64, letter: u64) -> u64 {
    customer * 1_000 + letter
}

/// Returns the refund for an order. The person reduces a large amount by 900 cents.
fn paid_for(order: u64) -> u64 {
    [1_900, 4_900, 12_000][order as usize % 3]
}

/// Writes letters until the desk is no longer killed. Each letter is repeated until its receipt is
/// confirmed.
fn write_letters(customer: u64, here: &dyn Fn() -> String, killed_enough: &AtomicBool) -> u64 {
    let mut letter = 0;
    while !killed_enough.load(Ordering::SeqCst) {
        letter += 1;
        let text = format!("I want my money back for order {}.", order_of(customer, letter));
        wait_for("the receipt of a letter", || {
            let reply =
                write_letter(&here(), &format!("c{customer}"), &letter.to_string(), &text).ok()?;
            assert_eq!(reply.status, 202, "{}", reply.body);
            Some(())
        });
    }
    letter
}

/// Approves each question with a smaller amount.
fn agree(here: &dyn Fn() -> String, all_answered: &AtomicBool) {
    while !all_answered.load(Ordering::SeqCst) {
        let questions = get(&here(), "/inbox").map(|reply| reply.json());
        for question in questions.iter().flat_map(|questions| questions.as_array()).flatten() {
            let mut arguments = question["about"].clone();
            arguments["cents"] = json!(arguments["cents"].as_u64().unwrap() - 900);
            let decision = json!({
                "run": question["run"], "path": question["path"], "by": "grace", "decision": "granted", "arguments": arguments,
            });
            // A lost response may have taken effect. Then the question is closed, or the second
            // answer is refused.
            if let Ok(reply) = decide(&here(), &decision) {
                assert!([204, 409].contains(&reply.status), "{reply:?}");
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Six customers write, a person approves reduced amounts, and the desk is killed again and again.
/// Each letter is answered once, and each refund is paid once.
#[cfg(unix)]
#[test]
fn on_sigterm_it_leaves_a_run_that_waits_and_ends_well_although_somebody_follows_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut desk = Desk::open(folder.path());
    write_letter(&desk.address, "ada", "1", "A refund for order 8, please.").unwrap();
    first_question(&desk.address);
    // The event stream of a run that does not end.
    let mut stream = TcpStream::connect(&desk.address).unwrap();
    write!(stream, "GET /runs/ada.1/events HTTP/1.1\r\nhost: desk\r\n\r\n").unwrap();
    let mut first = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("200"), "{first}");
    let id = desk.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let status = wait_for("the end of the program", || desk.process.try_wait().unwrap());
    assert!(status.success(), "{status}");
    let mut said = String::new();
    desk.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("1 runs are left for the next process"), "{said}");
    let desk = Desk::open(folder.path());
    let question = first_question(&desk.address);
    let yes =
        json!({"run": "ada.1", "path": question["path"], "by": "grace", "decision": "granted"});
    assert_eq!(decide(&desk.address, &yes).unwrap().status, 204);
    assert_eq!(
        answer_of(&desk.address, "ada.1"),
        "Your parcel is lost. We pay back 12900 cents. (letter 1)"
    );
}

#[test]
fn killed_at_fifty_moments_it_pays_each_refund_once() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Mutex::new(Desk::open(folder.path()));
    let here = || desk.lock().unwrap().address.clone();
    let (killed_enough, all_answered) = (AtomicBool::new(false), AtomicBool::new(false));
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);

    let letters: Vec<(u64, u64)> = thread::scope(|scope| {
        let write = |customer| {
            scope.spawn({
                let (here, killed_enough) = (&here, &killed_enough);
                move || (customer, write_letters(customer, here, killed_enough))
            })
        };
        let customers: Vec<_> = (1..=CUSTOMERS).map(write).collect();
        let person = scope.spawn(|| agree(&here, &all_answered));
        for _ in 0..KILLS {
            thread::sleep(Duration::from_millis(random.u64(10..150)));
            let mut desk = desk.lock().unwrap();
            desk.kill();
            *desk = Desk::open(folder.path());
        }
        killed_enough.store(true, Ordering::SeqCst);
        let letters: Vec<(u64, u64)> =
            customers.into_iter().map(|customer| customer.join().unwrap()).collect();
        for (customer, count) in &letters {
            (1..=*count)
                .for_each(|letter| drop(answer_of(&here(), &format!("c{customer}.{letter}"))));
        }
        all_answered.store(true, Ordering::SeqCst);
        person.join().unwrap();
        letters
    });

    let orders = letters
        .iter()
        .flat_map(|(customer, count)| (1..=*count).map(|letter| order_of(*customer, letter)));
    let expected: Vec<(u64, u64)> = orders.map(|order| (order, paid_for(order))).collect();
    println!("{} letters", expected.len());
    assert_eq!(payments(folder.path()), expected);
    for (customer, count) in letters {
        let history = get(&here(), &format!("/customers/c{customer}/history")).unwrap().json();
        let told: Vec<&str> =
            history.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
        let from = count.saturating_sub(100) + 1;
        assert_eq!(
            told,
            (from..=count).map(|letter| format!("c{customer}.{letter}")).collect::<Vec<_>>()
        );
        let last = answer_of(&here(), &format!("c{customer}.{count}"));
        let paid = format!("We pay back {} cents.", paid_for(order_of(customer, count)));
        assert!(last.contains(&paid), "{last}");
    }
}
