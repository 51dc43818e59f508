//! The first version of a program; its second version resumes its runs. It starts the run `run` of
//! the workflow `order` in a file, reports when the run waits for a person, and stays alive until
//! it is killed. The second versions are in `tests/versions`.

use std::path::PathBuf;
use std::time::Duration;

use agentflow::RunId;
use agentflow::prelude::*;
use agentflow::store::SqliteStore;
use agentflow_tests::order::EffectFile;

/// Records an effect in a file next to the runs.
fn note(cx: &Context, what: &str) -> Result<()> {
    cx.inject::<EffectFile>()?.note(what);
    Ok(())
}

async fn price(cx: &Context, n: u64) -> Result<u64> {
    note(cx, "price")?;
    Ok(n * 10)
}

async fn weigh(cx: &Context, n: u64) -> Result<u64> {
    note(cx, "weigh")?;
    Ok(n * 3)
}

async fn quote(cx: &Context, total: u64) -> Result<Quote> {
    note(cx, "quote")?;
    Ok(Quote { total })
}

async fn insure(cx: &Context, total: u64) -> Result<u64> {
    note(cx, "insure")?;
    Ok(total / 10)
}

async fn look(cx: &Context, n: u64) -> Result<u64> {
    note(cx, "look")?;
    Ok(n + 1)
}

/// Takes the money.
#[tool]
async fn pay(effects: Inject<EffectFile>, amount: u64) -> Result<String> {
    effects.note("pay");
    Ok(format!("paid {amount}"))
}

/// Puts a paper away.
#[tool]
async fn archive(effects: Inject<EffectFile>, paper: u64) -> Result<String> {
    effects.note("archive");
    Ok(format!("archived {paper}"))
}

/// Sends a letter.
#[tool]
async fn send(effects: Inject<EffectFile>, text: String) -> Result<String> {
    effects.note("send");
    Ok(format!("sent: {text}"))
}

/// What it costs.
#[derive(
    agentflow::serde::Serialize, agentflow::serde::Deserialize, agentflow::schemars::JsonSchema,
)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Quote {
    total: u64,
}

/// Checks a quote.
#[workflow]
async fn check(cx: &Context, total: u64) -> Result<u64> {
    let seen = look(cx, total).await?;
    Ok(seen + 1)
}

/// Keeps the papers.
#[workflow]
async fn file(cx: &Context, paper: u64) -> Result<String> {
    let archived = archive(cx.inject()?, paper).await?;
    Ok(archived)
}

/// Takes an order.
#[workflow]
async fn order(cx: &Context, n: u64) -> Result<String> {
    let price = price(cx, n).await?;
    let weight = weigh(cx, n).await?;
    let total = {
        let more = weight + 1;
        more * 2
    };
    #[node(id = "bill")]
    let bill = quote(cx, total).await?;
    let insured = if total > 10 { insure(cx, total).await? } else { 0 };
    let seen = map!(vec![total], |each| look(cx, each)).await?;
    let checked = check(cx, total).await?;
    let filed = file(cx, price).await?;
    let paid = pay(cx.inject()?, price).await?;
    let approval = gate!("send it?", paid).await?;
    let text = format!(
        "{paid}, {filed}, {} {insured} {seen:?} {checked} {}",
        bill.total,
        approval.is_granted()
    );
    let sent = send(cx.inject()?, text).await?;
    Ok(sent)
}

#[expect(clippy::print_stdout, reason = "what the program is for")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("order-first FOLDER"));
    let store = SqliteStore::open(folder.join("runs.db")).await?;
    let runtime = Runtime::builder().store(store).resource(EffectFile::of(&folder)).build();
    let run = runtime.start(order::workflow(), 7).run_id(RunId::new("run")).await?;
    while runtime.run(run.run_id()).inspect().await?.run.pause_reason.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("it waits");
    std::future::pending().await
}
