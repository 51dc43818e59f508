//! Tools for the tests in `every_caller.rs`. The program that provides the command line has them
//! too.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use agentflow::prelude::*;

/// Environment variable with the path of the file in which another process records its calls.
pub const NOTED_IN: &str = "AGENTFLOW_TESTS_CALLS";

/// Number of calls for each caller.
pub static CALLS: Mutex<Option<HashMap<String, u32>>> = Mutex::new(None);

pub fn called(who: &str) -> u32 {
    if let Some(path) = std::env::var_os(NOTED_IN) {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{who}").unwrap();
    }
    let mut calls = CALLS.lock().unwrap();
    let count = calls.get_or_insert_default().entry(who.to_owned()).or_default();
    *count += 1;
    *count
}

#[tool(effects = "read")]
pub async fn calls_well(who: String) -> Result<String, String> {
    called(&format!("{who}/calls_well"));
    Ok("well".to_owned())
}

#[tool(effects = "read")]
pub async fn calls_in_vain(who: String) -> Result<String, String> {
    called(&format!("{who}/calls_in_vain"));
    Err("there is nothing left".to_owned())
}

#[tool(timeout = "1s")]
pub async fn calls_late(who: String) -> Result<String, String> {
    called(&format!("{who}/calls_late"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    Ok("late".to_owned())
}

#[tool(timeout = "1s", effects = "read")]
pub async fn calls_late_to_read(who: String) -> Result<String, String> {
    called(&format!("{who}/calls_late_to_read"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    Ok("late".to_owned())
}

#[tool(effects = "read", max_output = 8)]
pub async fn calls_big(who: String) -> Result<String, String> {
    called(&format!("{who}/calls_big"));
    Ok("much too much".to_owned())
}

#[tool(effects = "read", scopes("desk"))]
pub async fn calls_scoped(who: String) -> Result<String, String> {
    called(&format!("{who}/calls_scoped"));
    Ok("mine".to_owned())
}

#[tool(effects = "read")]
pub async fn calls_badly(who: String) -> Result<String, String> {
    called(&format!("{who}/calls_badly"));
    panic!("not today")
}

#[tool(effects = "read", retry = 2)]
pub async fn calls_again(who: String) -> Result<String, String> {
    match called(&format!("{who}/calls_again")) {
        3 => Ok("at last".to_owned()),
        times => Err(format!("not at {times}")),
    }
}

#[tool(effects = "read", retry = 1)]
pub async fn calls_twice(who: String) -> Result<String, String> {
    called(&format!("{who}/calls_twice"));
    Err("never".to_owned())
}
