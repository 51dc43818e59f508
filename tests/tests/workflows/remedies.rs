//! The fixes that error messages suggest: they compile and behave as the author intended. The
//! mistakes are in `tests/ui`, in files whose names end in the names of these functions.

use std::sync::Mutex;
use std::time::SystemTime;

use agentflow::prelude::*;
use agentflow::workflow::NodeKind;

type Failed = Box<dyn std::error::Error + Send + Sync>;

struct Db;

impl Db {
    async fn size(&self) -> Result<u32, Failed> {
        Ok(3)
    }
}

async fn double(n: u32) -> u32 {
    n * 2
}

async fn fetch(url: String) -> Result<String, Failed> {
    Ok(url)
}

#[workflow]
async fn clock_instant(n: u32) -> Result<bool, Failed> {
    let begin = SystemTime::now();
    double(n).await;
    let took = begin.elapsed()?;
    Ok(took.as_secs() < 3600)
}

#[workflow]
async fn input_that_changes(words: Vec<String>) -> Result<String, Failed> {
    let words = {
        let mut words = words;
        words.sort();
        words
    };
    let first = fetch(words[0].clone()).await?;
    Ok(first)
}

#[workflow]
async fn injected_value(cx: &Context) -> Result<u32, Failed> {
    let n = cx.inject::<Db>()?.size().await?;
    Ok(n)
}

#[workflow]
async fn guard_held(cx: &Context) -> Result<u32, Failed> {
    let n = *cx.inject::<Mutex<u32>>()?.lock().unwrap();
    let n = double(n).await;
    Ok(n)
}

#[workflow]
async fn join_of_results(a: String, b: String) -> Result<String, Failed> {
    let (a, b) = tokio::try_join!(fetch(a), fetch(b))?;
    Ok(a + &b)
}

/// Uses `join!` for steps that do not return a `Result`.
#[workflow]
async fn join_of_values(a: u32, b: u32) -> Result<u32, Failed> {
    let (a, b) = tokio::join!(double(a), double(b));
    Ok(a + b)
}

#[workflow]
async fn let_without_a_value(word: String) -> Result<String, Failed> {
    let word = if word.len() > 3 { fetch(word).await? } else { "short".to_owned() };
    Ok(word)
}

#[workflow]
async fn gate_answer_unread(word: String) -> Result<u32, Failed> {
    if let Approval::Denied { .. } = gate!("keep {word}?").await? {
        return Ok(0);
    }
    let _answer = gate!("and now?").await?;
    let _ = gate!("and then?").await?;
    Ok(double(1).await)
}

/// Infers types from later statements.
#[workflow]
async fn types_that_follow(text: String) -> Result<usize, Failed> {
    let number = text.parse()?;
    let nothing = None;
    let words = text.split(' ').map(str::to_owned).collect();
    let all = all(number, nothing, &words).await;
    Ok(all)
}

/// Infers types from the return value.
#[workflow]
async fn types_of_the_end(text: String) -> Result<u32, Failed> {
    let number = text.parse()?;
    if text.len() > 5 {
        return Err("long".into());
    }
    Ok(number)
}

#[allow(clippy::ptr_arg, reason = "the type of the value is inferred from it")]
async fn all(number: u32, nothing: Option<u8>, words: &Vec<String>) -> usize {
    number as usize + words.len() + usize::from(nothing.is_some())
}

#[tokio::test]
async fn what_is_advised_does_what_is_meant() {
    let runtime = Runtime::builder().resource(Db).resource(Mutex::new(4_u32)).build();
    let words = vec!["b".to_owned(), "a".to_owned()];
    assert!(clock_instant(1).await.unwrap());
    assert_eq!(input_that_changes(words).await.unwrap(), "a");
    assert_eq!(injected_value::workflow().run(&runtime, ()).await.unwrap(), 3);
    assert_eq!(guard_held::workflow().run(&runtime, ()).await.unwrap(), 8);
    assert_eq!(join_of_results("a".to_owned(), "b".to_owned()).await.unwrap(), "ab");
    assert_eq!(join_of_values(1, 2).await.unwrap(), 6);
    assert_eq!(let_without_a_value("a".to_owned()).await.unwrap(), "short");
    assert_eq!(types_that_follow("7".to_owned()).await.unwrap(), 8);
    assert_eq!(types_of_the_end("7".to_owned()).await.unwrap(), 7);
    let gates = gate_answer_unread::workflow()
        .graph()
        .nodes
        .iter()
        .filter(|node| node.kind == NodeKind::Gate)
        .count();
    assert_eq!(gates, 3);
}
